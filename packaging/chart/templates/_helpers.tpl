{{- define "gatehouse.host" -}}
{{ trimPrefix "https://" .Values.issuer }}
{{- end }}

{{- define "gatehouse.selector" -}}
app.kubernetes.io/name: gatehouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gatehouse.labels" -}}
{{ include "gatehouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "gatehouse.caddyfile" -}}
{
	persist_config off
	auto_https off
	http_port 8080
	grace_period 30s
	metrics
	servers {
		listener_wrappers {
			gatehouse
			tls
		}
		trusted_proxies static{{ range .Values.trustedProxies }} {{ . }}{{ end }}
	}
	gatehouse {
		issuer {{ .Values.issuer }}
		storage postgres {env.DATABASE_URL}
		encryption_key {env.GATEHOUSE_KEY}
{{- range splitList "\n" (trim .Values.gatehouse) }}
		{{ . }}
{{- end }}
	}
}

http://{{ include "gatehouse.host" . }} {
	gatehouse
}

http://:9180 {
	metrics
}
{{- with trim .Values.sites }}

{{ . }}
{{- end }}
{{ end }}
