{{- define "nfd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nfd.labels" -}}
{{ include "nfd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "nfd.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name }}
{{- end }}

{{- /* What selects and makes the Pods of one part. Takes a dict: root, role, tolerations. */ -}}
{{- define "nfd.pods" -}}
selector:
  matchLabels:
    {{- include "nfd.selector" .root | nindent 4 }}
    role: {{ .role }}
template:
  metadata:
    labels:
      {{- include "nfd.selector" .root | nindent 6 }}
      role: {{ .role }}
  spec:
    serviceAccountName: node-feature-discovery
    priorityClassName: {{ .root.Values.priorityClassName }}
    {{- with .root.Values.imagePullSecrets }}
    imagePullSecrets:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    containers:
      - name: {{ .role }}
        image: {{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}
