package settings

import (
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

// description is the description of a route in the document.
type description struct {
	route   string // "GET /api/config"
	id      string
	summary string
	body    any // nil: no body
	status  int // of success
	answer  any // nil: no body
}

// The bodies that have no type of their own.
type (
	whitelistedURLRequest struct {
		URL string `json:"url" rest:"required"`
	}
	configuration struct {
		Messages       Messages       `json:"messages"`
		PasswordPolicy PasswordPolicy `json:"password_policy"`
		Profile        Profile        `json:"profile"`
	}
	identityProviderConfigResultSet struct {
		Result []identityProvider `json:"result"`
	}
)

// descriptions has a row for each route, in the same order.
var descriptions = []description{
	{"GET /api/config", "getConfiguration", "Reads messages, password policy and profile", nil, 200, configuration{}},
	{
		"POST /api/config/extension/reload", "reloadExtension", "Reads the messages and static resources of the extension directory again", nil,
		200, nil,
	},
	{
		"GET /api/config/identity-providers", "getIdentityProviders", "Lists the login methods at other places", nil, 200,
		identityProviderConfigResultSet{},
	},

	{"GET /api/v2/attributes", "getAttributes", "Reads the attributes unit", nil, 200, Attributes{}},
	{"POST /api/v2/attributes", "updateAttributes", "Changes the attributes unit", Attributes{}, 204, nil},
	{"GET /api/v2/config", "getUnits", "Reads every configuration unit", nil, 200, cimConfiguration{}},
	{"POST /api/v2/config", "updateUnits", "Changes several configuration units, all or none", bundle{}, 204, nil},
	{
		"GET /api/v2/config/custom-messages", "getCustomMessages", "Reads the custom messages of all languages and variants",
		nil, 200,
		CustomMessages{},
	},
	{"PUT /api/v2/config/custom-messages", "replaceCustomMessages", "Replaces all custom messages", CustomMessages{}, 204, nil},
	{
		"PUT /api/v2/config/custom-messages/{locale_variant}/batch", "updateMessages", "Creates or replaces messages of one locale",
		Translations{},
		204, nil,
	},
	{
		"DELETE /api/v2/config/custom-messages/{locale_variant}/{message_key}", "deleteMessage",
		"Removes a message of one locale", nil, 204, nil,
	},
	{"GET /api/v2/config/features", "getFeatures", "Reads the features unit", nil, 200, Features{}},
	{"POST /api/v2/config/features", "updateFeatures", "Changes the features unit", Features{}, 204, nil},
	{
		"GET /api/v2/config/features/action-token/whitelisted-urls", "getActionTokenURLs", "Lists where action tokens may send a person",
		nil, 200,
		[]WhitelistedURL{},
	},
	{
		"POST /api/v2/config/features/action-token/whitelisted-urls", "addActionTokenURL", "Adds a URL where action tokens may send a person",
		whitelistedURLRequest{},
		201,
		WhitelistedURL{},
	},
	{"DELETE /api/v2/config/features/action-token/whitelisted-urls/{url-id}", "deleteActionTokenURL", "Removes such a URL", nil, 204, nil},
	{"GET /api/v2/config/login-methods", "getLoginMethods", "Reads the login methods unit", nil, 200, LoginMethods{}},
	{"GET /api/v2/config/notifications/email", "getEmailNotifications", "Reads the e-mail notifications unit", nil, 200, EmailNotifications{}},
	{
		"POST /api/v2/config/notifications/email", "updateEmailNotifications", "Changes the e-mail notifications unit",
		EmailNotifications{},
		204, nil,
	},
	{"GET /api/v2/config/organisations", "getOrganisations", "Lists the organisations", nil, 200, []Organisation{}},
	{
		"GET /api/v2/config/organisations/{organisation-id}/service-providers", "getServiceProviders",
		"Lists the service providers of an organisation", nil, 200,
		[]ServiceProvider{},
	},
	{
		"POST /api/v2/config/organisations/{organisation-id}/service-providers", "updateServiceProviders",
		"Replaces the service providers of an organisation",
		[]ServiceProvider{},
		200,
		[]ServiceProvider{},
	},
	{
		"GET /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}", "getServiceProvider",
		"Reads a service provider", nil, 200,
		ServiceProvider{},
	},
	{
		"POST /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}", "updateServiceProvider",
		"Changes a service provider",
		ServiceProvider{},
		204, nil,
	},
	{"POST /api/v2/config/password-policy", "updatePasswordPolicy", "Changes the password policy", PasswordPolicy{}, 204, nil},
	{
		"GET /api/v2/config/policies", "getPolicies", "Lists the policies of the Caddyfile and of this API, and the sites that use them",
		nil, 200,
		[]PolicyEntry{},
	},
	{"GET /api/v2/config/policies/{name}", "getPolicy", "Reads a policy", nil, 200, Policy{}},
	{"PUT /api/v2/config/policies/{name}", "putPolicy", "Makes or replaces a policy", Policy{}, 204, nil},
	{"DELETE /api/v2/config/policies/{name}", "deletePolicy", "Removes a policy that no site uses", nil, 204, nil},
	{"GET /api/v2/config/redirects", "getRedirects", "Reads the redirects unit", nil, 200, Redirects{}},
	{"POST /api/v2/config/redirects", "updateRedirects", "Changes the redirects unit", Redirects{}, 204, nil},
	{"GET /api/v2/config/redirects/whitelisted-urls", "getRedirectURLs", "Lists where persons may be sent", nil, 200, []WhitelistedURL{}},
	{
		"POST /api/v2/config/redirects/whitelisted-urls", "addRedirectURL", "Adds a URL where persons may be sent",
		whitelistedURLRequest{},
		200,
		WhitelistedURL{},
	},
	{"DELETE /api/v2/config/redirects/whitelisted-urls/{url_id}", "deleteRedirectURL", "Removes such a URL", nil, 204, nil},
	{"GET /api/v2/config/step-up", "getStepUp", "Reads the step-up unit", nil, 200, StepUp{}},
	{"POST /api/v2/config/step-up", "updateStepUp", "Changes the step-up unit", StepUp{}, 204, nil},
	{"GET /api/v2/config/ui-extension", "getUIExtension", "Reads the UI extension unit", nil, 200, UIExtension{}},
	{"POST /api/v2/config/ui-extension", "updateUIExtension", "Changes the UI extension unit", UIExtension{}, 204, nil},
}

// Operations describes the routes for the OpenAPI document, those on key pairs included.
func Operations() []openapi.Operation {
	out := keystore.Operations()
	for _, d := range descriptions {
		method, path, _ := strings.Cut(d.route, " ")
		o := openapi.Operation{Method: method, Path: path, ID: d.id, Summary: d.summary, Body: d.body}
		o.Answers = append(o.Answers, openapi.Answer{Status: d.status, Body: d.answer})
		if path == "/api/config" {
			o.Query = []openapi.Param{{
				Name: "fields",
				Text: "Of messages, password_policy, profile; separated by commas or given several times. Default: all",
			}}
			o.Answers = append(o.Answers, openapi.Answer{Status: http.StatusBadRequest})
		}
		if method != http.MethodGet && path != "/api/config/extension/reload" {
			o.Header = []openapi.Param{{Name: "If-Match", Text: "Only when what is there still has this entity tag (RFC 9110)"}}
			o.Answers = append(o.Answers, openapi.Answer{Status: http.StatusPreconditionFailed, Text: "Someone else has changed it since"})
		}
		if o.ID == "putPolicy" {
			o.Answers = append(o.Answers, openapi.Answer{Status: http.StatusCreated, Text: "The policy is new"})
		}
		out = append(out, o)
	}
	for i := range out {
		o := &out[i]
		o.Tag = apiOf(o.Path)
		if strings.HasPrefix(o.Path, "/api/config") {
			o.Answers = append(o.Answers,
				openapi.Answer{Status: http.StatusInternalServerError, Text: "The configuration API is switched off, or something went wrong"})
		} else {
			o.Answers = append(o.Answers,
				openapi.Answer{
					Status: http.StatusConflict,
					Text:   "The configuration API is switched off, or what is asked does not work yet, is in use, or is at another stage",
				})
		}
		if strings.Contains(o.Path, "{") {
			o.Answers = append(o.Answers, openapi.Answer{Status: http.StatusNotFound})
		}
	}
	return out
}
