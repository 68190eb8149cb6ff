package command

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// Routes implements caddy.AdminRouter: EVERY route under /gatehouse/ of Caddy's admin endpoint.
func (AdminAPI) Routes() []caddy.AdminRoute {
	mux := http.NewServeMux()
	for pattern, call := range map[string]adminCall{
		"GET /gatehouse/check":                      adminCheck,
		"GET /gatehouse/persons":                    adminListPersons,
		"POST /gatehouse/persons":                   adminAddPerson,
		"GET /gatehouse/persons/show":               adminShowPerson,
		"POST /gatehouse/persons/change":            adminChangePerson,
		"POST /gatehouse/persons/unlock":            adminUnlock,
		"POST /gatehouse/persons/sign-out":          adminSignOut,
		"GET /gatehouse/sessions":                   adminListSessions,
		"POST /gatehouse/sessions/end":              adminEndSession,
		"POST /gatehouse/persons/password":          adminSetPassword,
		"POST /gatehouse/persons/state":             adminSetState,
		"POST /gatehouse/persons/step-up":           adminRemoveStepUp,
		"POST /gatehouse/persons/withdraw":          adminWithdrawConsent,
		"POST /gatehouse/persons/invitations":       adminInvite,
		"POST /gatehouse/persons/invitations/again": adminInviteAgain,
		"POST /gatehouse/persons/import":            adminImport,
		"GET /gatehouse/groups":                     adminListGroups,
		"POST /gatehouse/groups":                    adminAddGroup,
		"POST /gatehouse/groups/change":             adminChangeGroup,
		"POST /gatehouse/groups/remove":             adminRemoveGroup,
		"POST /gatehouse/persons/tokens":            adminMakeActionToken,
		"POST /gatehouse/persons/tokens/revoke":     adminRevokeActionTokens,
		"POST /gatehouse/persons/codes":             adminMakeCode,
		"GET /gatehouse/clients":                    adminListClients,
		"POST /gatehouse/clients":                   adminAddClient,
		"GET /gatehouse/clients/show":               adminShowClient,
		"POST /gatehouse/clients/change":            adminChangeClient,
		"POST /gatehouse/clients/secret":            adminReplaceSecret,
		"POST /gatehouse/clients/remove":            adminRemoveClient,
		"POST /gatehouse/clients/revoke":            adminRevokeClient,
		"POST /gatehouse/tokens":                    adminIssueToken,
		"POST /gatehouse/tokens/introspect":         adminIntrospect,
		"POST /gatehouse/tokens/revoke":             adminRevokeToken,
		"GET /gatehouse/backup":                     adminBackup,
		"GET /gatehouse/config":                     adminExportConfig,
		"POST /gatehouse/config/import":             adminImportConfig,
		"POST /gatehouse/config/diff":               adminDiffConfig,
		"GET /gatehouse/events":                     adminListEvents,
		"GET /gatehouse/events/verify":              adminVerifyEvents,
		"GET /gatehouse/why":                        adminWhy,
		"GET /gatehouse/idps":                       adminListProviders,
		"GET /gatehouse/idps/test":                  adminTestProvider,
		"POST /gatehouse/mail/test":                 adminTestMail,
		"GET /gatehouse/keys":                       adminListKeys,
		"POST /gatehouse/keys/rotate":               adminRotateKeys,
		"POST /gatehouse/tokens/revoke-all":         adminRevokeEverything,
	} {
		mux.HandleFunc(pattern, adminHandler(call))
	}
	return []caddy.AdminRoute{{Pattern: "/gatehouse/", Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		mux.ServeHTTP(w, r)
		return nil
	})}}
}
