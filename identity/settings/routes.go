package settings

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// route is one operation of the configuration API.
type route struct {
	jsonapi.Route
	// off is the status while the configuration API is switched off. (identity service document, "What the service
	// does")
	off int
	// api is the name under which API clients are allowed the operation.
	api string
}

// routes are the operations of the package, and those on key pairs.
func (a *API) routes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	const v1, v2 = http.StatusInternalServerError, http.StatusConflict
	var out []route
	for _, rt := range []struct {
		method, path string
		off          int
		serve        jsonapi.Handler
	}{
		{get, "/api/config", v1, a.getConfiguration},
		{post, "/api/config/extension/reload", v1, a.reloadExtension},
		{get, "/api/config/identity-providers", v1, a.getIdentityProviders},

		{get, "/api/v2/attributes", v2, a.getUnit("attributes")},
		{post, "/api/v2/attributes", v2, a.postUnit("attributes")},
		{get, "/api/v2/config", v2, a.getUnits},
		{post, "/api/v2/config", v2, a.postUnits},
		{get, "/api/v2/config/custom-messages", v2, a.getUnit("custom_messages")},
		{put, "/api/v2/config/custom-messages", v2, a.putCustomMessages},
		{put, "/api/v2/config/custom-messages/{locale_variant}/batch", v2, a.putMessages},
		{del, "/api/v2/config/custom-messages/{locale_variant}/{message_key}", v2, a.deleteMessage},
		{get, "/api/v2/config/features", v2, a.getUnit("features")},
		{post, "/api/v2/config/features", v2, a.postUnit("features")},
		{get, "/api/v2/config/features/action-token/whitelisted-urls", v2, a.getWhitelist(actionTokenURLs)},
		{post, "/api/v2/config/features/action-token/whitelisted-urls", v2, a.postWhitelist(actionTokenURLs, http.StatusCreated)},
		{del, "/api/v2/config/features/action-token/whitelisted-urls/{url-id}", v2, a.deleteWhitelisted(actionTokenURLs, "url-id")},
		{get, "/api/v2/config/login-methods", v2, a.getUnit("login_methods")},
		{get, "/api/v2/config/notifications/email", v2, a.getUnit("email_notifications")},
		{post, "/api/v2/config/notifications/email", v2, a.postUnit("email_notifications")},
		{get, "/api/v2/config/organisations", v2, a.getUnit("organisations")},
		{get, "/api/v2/config/organisations/{organisation-id}/service-providers", v2, a.getServiceProviders},
		{post, "/api/v2/config/organisations/{organisation-id}/service-providers", v2, a.postServiceProviders},
		{get, "/api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}", v2, a.getServiceProvider},
		{post, "/api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}", v2, a.postServiceProvider},
		{post, "/api/v2/config/password-policy", v2, a.postUnit("password_policy")},
		{get, "/api/v2/config/policies", v2, a.getPolicies},
		{get, "/api/v2/config/policies/{name}", v2, a.getPolicy},
		{put, "/api/v2/config/policies/{name}", v2, a.putPolicy},
		{del, "/api/v2/config/policies/{name}", v2, a.deletePolicy},
		{get, "/api/v2/config/redirects", v2, a.getUnit("redirects")},
		{post, "/api/v2/config/redirects", v2, a.postUnit("redirects")},
		{get, "/api/v2/config/redirects/whitelisted-urls", v2, a.getWhitelist(redirectURLs)},
		{post, "/api/v2/config/redirects/whitelisted-urls", v2, a.postWhitelist(redirectURLs, http.StatusOK)},
		{del, "/api/v2/config/redirects/whitelisted-urls/{url_id}", v2, a.deleteWhitelisted(redirectURLs, "url_id")},
		{get, "/api/v2/config/step-up", v2, a.getUnit("step_up")},
		{post, "/api/v2/config/step-up", v2, a.postUnit("step_up")},
		{get, "/api/v2/config/ui-extension", v2, a.getUnit("ui_extension")},
		{post, "/api/v2/config/ui-extension", v2, a.postUnit("ui_extension")},
	} {
		out = append(out, route{jsonapi.Route{Method: rt.method, Path: rt.path, Serve: rt.serve}, rt.off, apiOf(rt.path)})
	}
	for _, rt := range a.s.keyPairs.Routes() {
		out = append(out, route{rt, v2, apiName})
	}
	return out
}

// Paths returns the prefixes of the paths that ServeHTTP answers.
func (a *API) Paths() []string { return []string{"/api/config", "/api/v2", "/v2/config"} }
