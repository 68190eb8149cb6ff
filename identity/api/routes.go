package api

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// The names of the APIs that API clients are allowed.
const (
	eventsAPI      = "events"
	credentialsAPI = "credentials"
	personsAPI     = "persons"
	statisticsAPI  = "statistics"
	storageAPI     = "storage"
	sessionsAPI    = "sessions"
	assuranceAPI   = "assurance"
)

// Paths returns the paths that ServeHTTP answers, and those below each that ends with a slash.
func (a *API) Paths() []string {
	return []string{
		"/api/events", "/api/v1/statistics", "/api/v1/statistics/", "/api/v1/usage", "/api/credentials/", "/api/persons", "/api/persons/",
		"/api/storage/", "/api/sessions/",
	}
}

// routes: every path of the package.
func (a *API) routes() http.Handler {
	events := a.on(func(f *settings.Features) bool { return f.EventsAPIEnabled }, "events")
	credentials := able(a.deps.Identity != nil, a.on(func(f *settings.Features) bool { return f.CredentialsAPIEnabled }, "credentials"))
	persons := a.on(func(f *settings.Features) bool { return f.PersonAPIEnabled }, "person")
	statistics := a.on(func(f *settings.Features) bool { return f.StatisticsAPIEnabled }, "statistics")
	if a.deps.Identity == nil {
		persons = func(*http.Request) error { return apiOff("person") }
	}
	mux := http.NewServeMux()
	mux.Handle("/api/events", a.deps.Gate.Methods(eventsAPI, events, map[string]jsonapi.Handler{http.MethodGet: a.handleEvents}))
	mux.Handle("/api/v1/statistics",
		a.deps.Gate.Methods(statisticsAPI, statistics, map[string]jsonapi.Handler{http.MethodGet: a.handleMeasures}))
	mux.Handle("/api/v1/statistics/{measure}",
		a.deps.Gate.Methods(statisticsAPI, statistics, map[string]jsonapi.Handler{http.MethodGet: a.handleStatistics}))
	mux.Handle("/api/v1/usage", a.deps.Gate.Methods(statisticsAPI, statistics, map[string]jsonapi.Handler{http.MethodGet: a.handleUsage}))
	mux.Handle("/api/credentials/validate",
		a.deps.Gate.Methods(credentialsAPI, able(a.opener != nil, credentials), map[string]jsonapi.Handler{http.MethodPost: a.handleValidate}))
	mux.Handle("/api/credentials/token",
		a.deps.Gate.Methods(credentialsAPI, credentials, map[string]jsonapi.Handler{http.MethodPost: a.handleToken}))
	mux.Handle("/api/credentials/tokens/validate",
		a.deps.Gate.Methods(credentialsAPI, credentials, map[string]jsonapi.Handler{http.MethodPost: a.handleCheckToken}))
	kept := able(a.deps.Identity != nil, a.on(func(f *settings.Features) bool { return f.StorageAPIEnabled }, "storage"))
	mux.Handle("/api/storage/{id}",
		a.deps.Gate.Methods(storageAPI, kept, map[string]jsonapi.Handler{http.MethodGet: a.handleValues, http.MethodDelete: a.handleClearValues}))
	mux.Handle("/api/storage/{id}/{key}", a.deps.Gate.Methods(storageAPI, kept, map[string]jsonapi.Handler{
		http.MethodGet: a.handleValue, http.MethodPut: a.handlePutValue, http.MethodDelete: a.handleDeleteValue,
	}))
	sessions := able(a.deps.Identity != nil, a.on(func(f *settings.Features) bool { return f.SessionAPIEnabled }, "session"))
	mux.Handle("/api/persons/{id}/sessions",
		a.deps.Gate.Methods(sessionsAPI, sessions,
			map[string]jsonapi.Handler{http.MethodGet: a.handleSessions, http.MethodDelete: a.handleEndSessions}))
	mux.Handle("/api/persons/{id}/trusted-browsers",
		a.deps.Gate.Methods(sessionsAPI, sessions,
			map[string]jsonapi.Handler{http.MethodGet: a.handleTrusted, http.MethodDelete: a.handleUntrust}))
	mux.Handle("/api/persons/{id}/trusted-browsers/{browser}",
		a.deps.Gate.Methods(sessionsAPI, sessions, map[string]jsonapi.Handler{http.MethodDelete: a.handleUntrust}))
	mux.Handle("/api/sessions/{session}",
		a.deps.Gate.Methods(sessionsAPI, sessions,
			map[string]jsonapi.Handler{http.MethodGet: a.handleSession, http.MethodDelete: a.handleEndSession}))
	mux.Handle("/api/persons/{id}/assurance",
		a.deps.Gate.Methods(assuranceAPI, persons,
			map[string]jsonapi.Handler{http.MethodGet: a.handleAssurance, http.MethodDelete: a.handleWithdrawAssurance}))
	mux.Handle("/api/persons/{id}/identity-card",
		a.deps.Gate.Methods(assuranceAPI, persons, map[string]jsonapi.Handler{http.MethodPost: a.handleIdentityCard}))
	mux.Handle("/api/persons", a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodGet: a.handlePersons}))
	mux.Handle("/api/persons/{id}/tokens",
		a.deps.Gate.Methods(personsAPI, persons,
			map[string]jsonapi.Handler{http.MethodPost: a.handleMakeToken, http.MethodDelete: a.handleRevokeTokens}))
	mux.Handle("/api/persons/{id}/tokens/{token}",
		a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodDelete: a.handleRevokeTokens}))
	mux.Handle("/api/persons/{id}/codes",
		a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodPost: a.sparing(a.handleMakeCode)}))
	mux.Handle("/api/persons/invitations",
		a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodPost: a.handleInvite}))
	mux.Handle("/api/persons/{id}/phone-numbers/code",
		a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodPost: a.sparing(a.handleSendNumberCode)}))
	mux.Handle("/api/persons/{id}/phone-numbers/verify",
		a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodPost: a.sparing(a.handleVerifyNumber)}))
	mux.Handle("/api/persons/{id}/mobile-login",
		a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodPost: a.sparing(a.handleScanned)}))
	mux.Handle("/api/persons/{id}/mobile-login/answer",
		a.deps.Gate.Methods(personsAPI, persons, map[string]jsonapi.Handler{http.MethodPost: a.sparing(a.handlePhoneAnswer)}))
	mux.Handle("/api/persons/{id}/invitation",
		a.deps.Gate.Methods(personsAPI, persons,
			map[string]jsonapi.Handler{http.MethodPost: a.sparing(a.handleInviteAgain), http.MethodDelete: a.sparing(a.handleWithdrawInvitation)}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { a.deps.Gate.Fail(w, r, jsonapi.NotFound()) })
	return mux
}
