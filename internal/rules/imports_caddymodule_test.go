package rules

func init() {
	mayImportRows(`
caddymodule: authz identity idp internal storage storage/transfer
caddymodule/admins: caddymodule/console caddymodule/internal
caddymodule/alert: identity/notify identity/person internal storage
caddymodule/authzen: internal
caddymodule/backup: internal storage storage/transfer
caddymodule/client: authz caddymodule/internal internal
caddymodule/clientcert: authz/certificate caddymodule/internal
caddymodule/command: authz caddymodule/backup caddymodule/client caddymodule/explain caddymodule/internal caddymodule/manage caddymodule/protect identity idp internal storage storage/transfer
caddymodule/command/admin: authz caddymodule/backup caddymodule/client caddymodule/explain caddymodule/internal caddymodule/manage caddymodule/protect identity idp internal storage
caddymodule/command/doctor: internal/cookie
caddymodule/command/inspect: caddymodule/internal/finding caddymodule/internal/site
caddymodule/command/mcpcheck:
caddymodule/command/movein: caddymodule/client caddymodule/internal
caddymodule/command/spelling: internal
caddymodule/console: authz caddymodule/alert caddymodule/backup caddymodule/internal/finding caddymodule/manage identity idp internal storage
caddymodule/console/frame: authz caddymodule/manage identity internal storage
caddymodule/console/gateway: authz caddymodule/console/frame caddymodule/manage identity internal storage
caddymodule/console/setup: authz caddymodule/console/frame identity idp internal storage
caddymodule/console/upkeep: caddymodule/backup caddymodule/console/frame identity internal storage
caddymodule/core: authz/dpop authz/keys authz/site authz/token caddymodule/metrics identity/lookup identity/session internal storage storage/badgerstore storage/transfer
caddymodule/delivery: caddymodule/internal identity internal
caddymodule/explain: authz caddymodule/internal caddymodule/policy caddymodule/protect internal
caddymodule/extauthz: caddymodule/forwardauth caddymodule/internal internal
caddymodule/forwardauth: authz caddymodule/clientcert caddymodule/extauthz caddymodule/internal caddymodule/mcp caddymodule/policy caddymodule/protect idp internal
caddymodule/internal: internal
caddymodule/internal/servertest: authz caddymodule identity idp internal storage
caddymodule/introspect: authz/token caddymodule/internal internal
caddymodule/listener:
caddymodule/manage: authz identity internal storage
caddymodule/mcp: caddymodule/internal internal
caddymodule/metrics: identity internal storage storage/badgerstore storage/pgstore
caddymodule/policy: authz/token caddymodule/internal internal
caddymodule/policy/stored: caddymodule/policy identity internal storage
caddymodule/postgres: caddymodule/internal internal storage storage/pgstore
caddymodule/protect: authz caddymodule/internal caddymodule/introspect caddymodule/mcp caddymodule/policy idp internal
caddymodule/provider: authz caddymodule/internal identity idp internal storage
caddymodule/serviceprovider: caddymodule/internal identity/config identity/serviceprovider internal
caddymodule/sites: authz caddymodule/command/admin caddymodule/command/doctor caddymodule/console/gateway caddymodule/explain caddymodule/forwardauth caddymodule/internal caddymodule/manage caddymodule/policy caddymodule/protect identity internal storage
`)
}
