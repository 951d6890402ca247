{{- define "modelway.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "modelway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "modelway.name" .) .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "modelway.name" .) | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- /* Objects without a namespace must not collide with those of a release of the same name elsewhere. */ -}}
{{- define "modelway.clusterName" -}}
{{ printf "%s-%s" .Release.Namespace (include "modelway.fullname" .) | trunc 120 }}
{{- end }}

{{- define "modelway.routerClusterRole" -}}
{{ include "modelway.clusterName" . }}-router
{{- end }}

{{- /* Deployment and Lease share it: the release hook knows both by it. */ -}}
{{- define "modelway.controllerName" -}}
{{ include "modelway.fullname" . }}-controller
{{- end }}

{{- define "modelway.serviceAccount" -}}
{{ default (include "modelway.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "modelway.releaseServiceAccount" -}}
{{ include "modelway.fullname" . }}-release
{{- end }}

{{- define "modelway.registryName" -}}
{{ include "modelway.fullname" . }}-registry
{{- end }}

{{- define "modelway.registryHost" -}}
{{ printf "%s.%s.svc:%d" (include "modelway.registryName" .) .Release.Namespace (int .Values.registry.port) }}
{{- end }}

{{- define "modelway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{- define "modelway.defaultRegistry" -}}
{{- if .Values.defaultRegistry -}}
{{ .Values.defaultRegistry }}
{{- else if .Values.registry.enabled -}}
{{ include "modelway.registryHost" . }}
{{- else -}}
{{ fail "defaultRegistry is needed: host[:port]/path that images are published under, such as registry.example.com/models; or try the chart's own registry with registry.enabled=true" }}
{{- end -}}
{{- end }}

{{- define "modelway.modelMount" -}}
{{- if .Values.modelMount -}}
{{ .Values.modelMount }}
{{- else if and .Values.registry.enabled (not .Values.defaultRegistry) -}}
{{- /* Nodes do not know the names of Services, pods do. */ -}}
pull
{{- else -}}
auto
{{- end -}}
{{- end }}

{{- define "modelway.selector" -}}
app.kubernetes.io/name: {{ include "modelway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "modelway.labels" -}}
{{ include "modelway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "modelway.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.runAsUser }}
runAsGroup: {{ .Values.podSecurity.runAsGroup }}
fsGroup: {{ .Values.podSecurity.fsGroup }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "modelway.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities: { drop: [ALL] }
readOnlyRootFilesystem: true
runAsNonRoot: true
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "modelway.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "modelway.releaseHookSetup" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
