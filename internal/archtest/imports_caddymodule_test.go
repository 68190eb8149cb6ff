package archtest

func init() {
	mayImportRows(`
caddymodule/adminapi: admin admin/backup authz caddymodule/client caddymodule/explain caddymodule/internal caddymodule/protect identity idp internal storage
caddymodule/cli/inspect: admin/diagnostic caddymodule/internal/routetree
caddymodule/cli/movein: caddymodule/client caddymodule/internal internal/strictjson
caddymodule/cli/progress:
caddymodule/cli/suggest: internal
caddymodule/cli: admin admin/backup admin/doctor admin/mcpcheck authz caddymodule/adminapi caddymodule/client caddymodule/explain caddymodule/internal caddymodule/metrics caddymodule/protect identity idp internal storage storage/transfer
caddymodule/client: authz caddymodule/internal internal
caddymodule/clientcert: authz/certificate caddymodule/internal
caddymodule/envoyauthz: caddymodule/forwardauth caddymodule/internal internal
caddymodule/explain: authz caddymodule/internal caddymodule/policy caddymodule/protect internal
caddymodule/forwardauth: admin/diagnostic authz caddymodule/clientcert caddymodule/envoyauthz caddymodule/internal caddymodule/mcp caddymodule/policy caddymodule/protect idp internal
caddymodule/internal: admin/diagnostic internal
caddymodule/introspect: authz/token caddymodule/internal internal
caddymodule/inventory: admin admin/console/sites admin/doctor authz caddymodule/adminapi caddymodule/explain caddymodule/forwardauth caddymodule/internal caddymodule/policy caddymodule/protect identity internal storage
caddymodule/mcp: caddymodule/internal internal
caddymodule/metrics: identity internal storage storage/badgerstore storage/pgstore
caddymodule/policy/stored: caddymodule/policy identity internal storage
caddymodule/policy: admin/diagnostic authz/token caddymodule/internal internal
caddymodule/postgres: caddymodule/internal internal storage storage/pgstore
caddymodule/protect: admin/diagnostic authz caddymodule/internal caddymodule/introspect caddymodule/mcp caddymodule/policy idp internal
caddymodule/provider: authz caddymodule/internal identity idp internal storage
caddymodule/reloadlistener: caddymodule/internal
caddymodule/roles: admin/console caddymodule/internal
caddymodule/sender: caddymodule/internal identity internal
caddymodule/servertest: authz caddymodule identity idp internal storage
caddymodule/serviceprovider: caddymodule/internal identity/serviceprovider identity/settings internal
caddymodule/shared: authz/clientstore authz/dpop authz/keys authz/sitesession authz/token caddymodule/metrics identity/personindex identity/session internal storage storage/badgerstore storage/transfer
caddymodule: admin authz identity idp internal storage storage/transfer
`)
}
