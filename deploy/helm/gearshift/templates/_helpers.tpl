{{- define "gearshift.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gearshift.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Of engines with agents, which the router's Service must not select. */}}
{{- define "gearshift.engines" -}}
app.kubernetes.io/name: {{ printf "%s-engine" (default .Chart.Name .Values.nameOverride) | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gearshift.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "gearshift.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "gearshift.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gearshift.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* 85 % of the container's memory, for Go's collector; empty if its limit is no whole Mi or Gi. */}}
{{- define "gearshift.memoryLimit" -}}
{{- $limit := "" -}}
{{- with .Values.resources }}{{ with .limits }}{{ with .memory }}{{ $limit = toString . }}{{ end }}{{ end }}{{ end -}}
{{- if regexMatch "^[0-9]+Gi$" $limit -}}
{{- printf "%dMiB" (div (mul (trimSuffix "Gi" $limit | int64) 1024 85) 100) -}}
{{- else if regexMatch "^[0-9]+Mi$" $limit -}}
{{- printf "%dMiB" (div (mul (trimSuffix "Mi" $limit | int64) 85) 100) -}}
{{- end -}}
{{- end -}}
