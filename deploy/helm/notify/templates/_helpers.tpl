{{- define "notify.name" -}}
{{- if contains "notify" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-notify" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "notify.selector" -}}
app.kubernetes.io/name: notify
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "notify.labels" -}}
{{ include "notify.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
