package doctor

// fixes say what to do about a failure, by the proxy and what the failure is about. The one without a proxy is for all
// others.
var fixes = map[kind]map[string]string{
	aboutGate: {
		"":        "every request of the site must be put to Gatehouse before it goes to the application, and only 2xx lets it in",
		"nginx":   "put `auth_request` into the server or location that has `proxy_pass`; 302 from Gatehouse becomes 500 in nginx, so ask it with `profile=nginx`",
		"traefik": "name the forwardAuth middleware in every router of the site",
		"haproxy": "deny unless `txn.auth_response_successful` is true, in the frontend, before use_backend",
		Protect:   "`protect` must stand before every handler of the site, and no matcher, `handle` or `public` may keep this request from it",
		"envoy":   "the filter ext_authz must stand before the router, and no route may disable it",
	},
	aboutToken: {
		"":      "a valid token must pass: does the proxy hand the header Authorization to Gatehouse, and does the recording upstream listen where the application does?",
		"envoy": "allowed_headers of ext_authz must hold authorization, cookie, accept and sec-fetch-mode",
	},
	aboutIdentity: {
		"":              "delete every identity header of the client, in each spelling, and set it from the answer of Gatehouse, to nothing if the answer has none",
		"nginx":         "one `auth_request_set` and one `proxy_set_header` for every identity header, and `underscores_in_headers off` (the default)",
		"ingress-nginx": "`auth-response-headers` must list every identity header, and `enable-underscores-in-headers` must be off",
		"traefik":       "`authResponseHeaders` must list every identity header; a headers middleware before it must empty the spellings with _",
		"caddy":         "`copy_headers` must list every identity header; Caddy before 2.11.2 does not delete those of the client; `request_header -Remote_*` deletes the spellings with _",
		"haproxy":       "`http-request del-header` for every identity header in the spellings with -, _ and ., before it is set from the answer",
		"envoy":         "`allowed_upstream_headers` must list every identity header, and `headers_with_underscores_action: REJECT_REQUEST` refuses the others",
	},
	aboutConnection: {
		"":      "the proxy must set the identity headers after it has removed those that Connection names, or refuse such requests",
		"caddy": "use a Caddy in which reverse_proxy removes the headers that Connection names before it sets others, or refuse them by a matcher",
	},
	aboutURL: {
		"":              "the headers by which Gatehouse learns method and address must be set by the proxy itself, in place of the client's",
		"nginx":         "`proxy_set_header X-Original-URL $scheme://$http_host$request_uri` and `X-Original-Method $request_method` in the location that asks Gatehouse",
		"ingress-nginx": "leave `auth-snippet` and `configuration-snippet` from setting X-Original-URL and X-Original-Method",
		"traefik":       "leave `trustForwardHeader` off: with it the client chooses X-Forwarded-Uri and X-Forwarded-Method",
		"caddy":         "leave X-Forwarded-Method and X-Forwarded-Uri to forward_auth, and name only your own proxies in trusted_proxies",
		"haproxy":       "`http-request set-header` for X-Forwarded-Method, -Uri, -Host and -Proto before `lua.auth-request`",
		"envoy":         "ask at /oauth/ext-authz with path_prefix, which reads the request line alone",
	},
	aboutPath: {
		"":      "the path that is decided about must be the one that the application gets: normalize it before, or refuse what is not normal",
		Protect: "let `public` and the matchers of the site name whole paths, such as /healthz, and nothing that a longer path begins with",
		"nginx": "use $request_uri in X-Original-URL, no rewritten $uri, and keep locations without auth_request exact (`location = /healthz`)",
		"envoy": "`normalize_path: true`, `merge_slashes: true` and `path_with_escaped_slashes_action: REJECT_REQUEST`",
	},
	aboutMethod: {
		"":        "every method must be put to Gatehouse, HEAD and OPTIONS too; preflights pass with the option `preflight` alone",
		Protect:   "no matcher of `protect` and no `handle` of the site may ask for the method; preflights pass with the option `preflight` alone",
		"nginx":   "take `limit_except` and `if ($request_method …)` away around auth_request",
		"haproxy": "take the condition on the method away from `lua.auth-request`",
	},
	aboutDown: {
		"":              "what cannot be decided must be refused",
		"nginx":         "take `error_page 500 = …` away from locations with auth_request",
		"ingress-nginx": "leave `auth-always-set-cookie` and custom error pages from turning 503 into 200, and set no `auth-cache-key`",
		"haproxy":       "deny unless `txn.auth_response_successful` is true; a check of the response code alone lets errors in",
		"envoy":         "`failure_mode_allow: false`, and `status_on_error: 503`",
	},
	aboutCertificate: {
		"":        "set or delete the headers that name a certificate of the client in each request, before Gatehouse and the application see it: with `client_certificate_header` the client could claim any certificate",
		"nginx":   "`proxy_set_header Client-Cert $ssl_client_escaped_cert` where Gatehouse is asked and next to `proxy_pass`, or to \"\"",
		"haproxy": "`http-request del-header Client-Cert` before it is set",
		"envoy":   "`forward_client_cert_details: SANITIZE`, and `request_headers_to_remove` for the other names",
	},
	aboutPassedOn: {
		"":      "delete these headers from requests: some frameworks route by them",
		"nginx": "`proxy_set_header X-Original-URL \"\"`, and likewise for X-Original-URI, X-Rewrite-URL and X-Original-Method, next to `proxy_pass`",
	},
}

func fixOf(proxy string, k kind) string {
	if text, ok := fixes[k][proxy]; ok {
		return text
	}
	return fixes[k][""]
}
