//! What is missing on a node, as it is told: the reason, and the image that is not there, where that is why.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Affair, NodeReason};
use crate::api::RELEASE_NAMESPACE;

/// Why a node cannot be used. Nodes with an equal cause are told together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The first missing link.
    pub reason: NodeReason,
    /// The image that it is about.
    pub image: Option<Image>,
}

/// An image that is not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    /// Its reference.
    pub name: Arc<str>,
    /// What is known of it.
    pub trouble: ImageTrouble,
}

/// What is known of an image that is not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageTrouble {
    /// The support matrix does not have it; there may be one.
    Unknown,
    /// The registry says that it does not exist.
    Absent,
    /// It is meant for another operating system than the node has.
    OfOtherSystem,
    /// It could not be pulled, and nobody knows whether it exists.
    Refused,
    /// It could not be pulled, and this Secret is missing with which it would be.
    WithoutSecret(Arc<str>),
}

impl From<NodeReason> for Cause {
    fn from(reason: NodeReason) -> Self {
        Self { reason, image: None }
    }
}

impl Cause {
    /// Whose affair it is. An image that cannot be pulled is a user's, whatever part it is of.
    pub fn affair(&self) -> Affair {
        if self.image.is_some() {
            Affair::User
        } else {
            self.reason.affair()
        }
    }

    /// What is wrong, with the image, to be followed by the names of the nodes.
    pub fn what(&self) -> String {
        match &self.image {
            Some(image) => self.of_image(&format!("image {}", image.name)),
            None => self.reason.what().to_owned(),
        }
    }

    /// The same for a place that shows the image by itself.
    pub fn what_briefly(&self) -> String {
        match &self.image {
            Some(_) => self.of_image("image"),
            None => self.reason.what().to_owned(),
        }
    }

    fn of_image(&self, image: &str) -> String {
        let without = match self.image.as_ref().map(|image| &image.trouble) {
            Some(ImageTrouble::WithoutSecret(name)) => format!(" without Secret {name}"),
            _ => String::new(),
        };
        match self.reason {
            NodeReason::DriverImageMissing => format!("the driver {image} cannot be pulled{without}"),
            NodeReason::DriverImageUnknown => format!("it is not known whether there is the driver {image}"),
            reason => format!("{}, since its {image} cannot be pulled{without}", reason.what()),
        }
    }

    /// What to do about it.
    pub fn todo(&self) -> Cow<'static, str> {
        if let Some(Image {
            trouble: ImageTrouble::WithoutSecret(name),
            ..
        }) = &self.image
        {
            return format!(
                "create Secret {name}, which spec.images.pullSecrets names, in namespace {RELEASE_NAMESPACE}"
            )
            .into();
        }
        self.todo_in_general().into()
    }

    const fn todo_in_general(&self) -> &'static str {
        let Some(image) = &self.image else {
            return self.reason.todo();
        };
        match (self.reason, &image.trouble) {
            (_, ImageTrouble::Refused | ImageTrouble::WithoutSecret(_)) => {
                "see that the nodes reach the registry and that spec.images.pullSecrets may pull it"
            }
            (_, ImageTrouble::OfOtherSystem) => {
                "set spec.chartVersion to 26.7.0 or newer, or remove the nodes with another operating system"
            }
            (_, ImageTrouble::Unknown) | (NodeReason::DriverImageMissing, ImageTrouble::Absent) => {
                self.reason.todo()
            }
            (_, ImageTrouble::Absent) => {
                "put it into the registry, or correct spec.images.registry or spec.values"
            }
        }
    }
}
