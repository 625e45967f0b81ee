export default [
  { text: 'Prerequisites', link: './00-20-prerequisites' },
  { text: 'Installation', link: './00-30-installation' },
  { text: 'Configuration', link: './00-40-configuration' },
  { text: 'Using GPUs', link: './00-50-using-gpus' },
  { text: 'Upgrades', link: './00-60-upgrades' },
  { text: 'Removal', link: './00-70-removal' },
  { text: 'Limitations', link: './00-80-limitations' },
  { text: 'Migration and Adoption', link: './00-90-migration' },
  { text: 'Operations', link: './01-10-operations' },
  { text: 'Monitoring', link: './01-20-monitoring' },
  {
    text: 'Resources',
    link: './resources/README',
    collapsed: true,
    items: [{ text: 'GpuModule', link: './resources/06-10-gpumodule-cr' }],
  },
  { text: 'Troubleshooting', link: './troubleshooting/README' },
];
