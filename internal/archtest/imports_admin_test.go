package archtest

func init() {
	mayImportRows(`
admin/alert: identity/notify identity/person internal storage
admin/authzen: internal
admin/backup: internal storage storage/transfer
admin/console/layout: admin authz identity internal storage
admin/console/maintenance: admin/backup admin/console/layout identity internal storage
admin/console/members: admin/console/layout identity internal
admin/console/providers: admin/console/layout admin/console/members authz identity idp internal storage
admin/console/sites: admin admin/console/layout authz identity internal storage
admin/console/traffic: admin admin/console/layout identity internal storage
admin/console: admin admin/alert admin/backup admin/diagnostic authz docs/integrations identity idp internal storage
admin/doctor: internal/cookie
admin/mcpcheck: 
admin: authz identity idp internal storage
`)
}
