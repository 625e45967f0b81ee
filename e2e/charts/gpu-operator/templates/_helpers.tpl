{{- define "stand-in.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/component: gpu-operator
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "stand-in.image" -}}
{{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Values.operator.version | default .Chart.AppVersion }}
{{- end }}

{{- /* A Job that runs at a hook. Takes a dict: root, name, event, serviceAccount. */ -}}
{{- define "stand-in.hook" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "stand-in.labels" .root | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .event }}
    helm.sh/hook-delete-policy: hook-succeeded,before-hook-creation
spec:
  template:
    metadata:
      {{- if .root.Values.standIn.holdHooks }}
      annotations:
        simulated.gpu-manager.kyma-project.io/hold: hook
      {{- end }}
      labels:
        {{- include "stand-in.labels" .root | nindent 8 }}
    spec:
      serviceAccountName: {{ .serviceAccount }}
      restartPolicy: OnFailure
      nodeSelector:
        {{- toYaml .root.Values.operator.nodeSelector | nindent 8 }}
      tolerations:
        {{- toYaml .root.Values.operator.tolerations | nindent 8 }}
      containers:
        - name: {{ .name }}
          image: {{ include "stand-in.image" .root }}
{{- end }}
