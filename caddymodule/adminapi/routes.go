package adminapi

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// Routes implements caddy.AdminRouter: EVERY route under /gatehouse/ of Caddy's admin endpoint.
func (AdminAPI) Routes() []caddy.AdminRoute {
	mux := http.NewServeMux()
	for pattern, call := range map[string]adminCall{
		"GET /gatehouse/check":                      adminCheck,
		"GET /gatehouse/persons":                    adminListPersons,
		"POST /gatehouse/persons":                   reading(adminAddPerson),
		"GET /gatehouse/persons/show":               adminShowPerson,
		"POST /gatehouse/persons/change":            reading(adminChangePerson),
		"POST /gatehouse/persons/unlock":            reading(adminUnlock),
		"POST /gatehouse/addresses/unlock":          reading(adminUnlockAddress),
		"POST /gatehouse/persons/sign-out":          reading(adminSignOut),
		"POST /gatehouse/persons/app-passwords":     reading(adminRevokeAppPasswords),
		"POST /gatehouse/persons/untrust":           reading(adminUntrust),
		"GET /gatehouse/sessions":                   adminListSessions,
		"POST /gatehouse/sessions/end":              reading(adminEndSession),
		"POST /gatehouse/persons/password":          reading(adminSetPassword),
		"POST /gatehouse/persons/state":             reading(adminSetState),
		"POST /gatehouse/persons/merge":             reading(adminMerge),
		"POST /gatehouse/persons/step-up":           reading(adminRemoveStepUp),
		"POST /gatehouse/persons/withdraw":          reading(adminWithdrawConsent),
		"POST /gatehouse/persons/invitations":       reading(adminInvite),
		"POST /gatehouse/persons/invitations/again": reading(adminInviteAgain),
		"POST /gatehouse/persons/import":            reading(adminImport),
		"POST /gatehouse/admins":                    reading(adminInviteOwner),
		"GET /gatehouse/groups":                     adminListGroups,
		"POST /gatehouse/groups":                    reading(adminAddGroup),
		"POST /gatehouse/groups/change":             reading(adminChangeGroup),
		"POST /gatehouse/groups/remove":             reading(adminRemoveGroup),
		"POST /gatehouse/persons/tokens":            reading(adminMakeActionToken),
		"POST /gatehouse/persons/tokens/revoke":     reading(adminRevokeActionTokens),
		"POST /gatehouse/persons/codes":             reading(adminMakeCode),
		"GET /gatehouse/clients":                    adminListClients,
		"POST /gatehouse/clients":                   reading(adminAddClient),
		"GET /gatehouse/clients/show":               adminShowClient,
		"POST /gatehouse/clients/change":            reading(adminChangeClient),
		"POST /gatehouse/clients/secret":            reading(adminReplaceSecret),
		"POST /gatehouse/clients/remove":            reading(adminRemoveClient),
		"POST /gatehouse/clients/revoke":            reading(adminRevokeClient),
		"POST /gatehouse/tokens":                    reading(adminIssueToken),
		"POST /gatehouse/tokens/introspect":         reading(adminIntrospect),
		"POST /gatehouse/tokens/revoke":             reading(adminRevokeToken),
		"GET /gatehouse/backup":                     adminBackup,
		"POST /gatehouse/backup":                    reading(adminFinishBackup),
		"GET /gatehouse/calls":                      adminListCalls,
		"GET /gatehouse/limits":                     adminListLimits,
		"GET /gatehouse/usage":                      adminUsage,
		"POST /gatehouse/limits/lift":               reading(adminLiftLimit),
		"GET /gatehouse/nodes":                      adminListNodes,
		"POST /gatehouse/upgrade/finish":            reading(adminFinishUpgrade),
		"GET /gatehouse/config":                     adminExportConfig,
		"POST /gatehouse/config/import":             adminImportConfig,
		"POST /gatehouse/config/diff":               adminDiffConfig,
		"GET /gatehouse/events":                     adminListEvents,
		"GET /gatehouse/events/verify":              adminVerifyEvents,
		"GET /gatehouse/why":                        adminWhy,
		"POST /gatehouse/explain":                   reading(adminExplain),
		"GET /gatehouse/access":                     adminListAccess,
		"POST /gatehouse/access":                    reading(adminDecideAccess),
		"GET /gatehouse/decisions":                  adminListDecisions,
		"GET /gatehouse/idps":                       adminListProviders,
		"GET /gatehouse/idps/test":                  adminTestProvider,
		"POST /gatehouse/mail/test":                 reading(adminTestMail),
		"GET /gatehouse/keys":                       adminListKeys,
		"POST /gatehouse/keys/rotate":               adminRotateKeys,
		"POST /gatehouse/keys/retire":               reading(adminRetireKey),
		"POST /gatehouse/keys/reseal":               reading(adminReseal),
		"GET /gatehouse/key-pairs":                  adminListKeyPairs,
		"POST /gatehouse/key-pairs/rotate":          reading(adminRotateKeyPair),
		"POST /gatehouse/tokens/revoke-all":         adminRevokeEverything,
	} {
		most := int64(MaxBody)
		if strings.Contains(pattern, "/gatehouse/config/") {
			most = settings.MaxConfiguration
		}
		mux.HandleFunc(pattern, adminHandler(call, most))
	}
	return []caddy.AdminRoute{{Pattern: "/gatehouse/", Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		mux.ServeHTTP(w, r)
		return nil
	})}}
}
