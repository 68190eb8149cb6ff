package reference

import "slices"

// ForwardAuth is a gate for a site that another proxy serves.
var ForwardAuth = Block{
	Head: "forward_auth <name>", Open: "forward_auth wiki",
	Text: "A gate for a site that another proxy serves: nginx, HAProxy, Traefik, Envoy or another Caddy asks `/oauth/forward-auth?policy=<name>` about each request. [gateways.md](gateways.md) has a configuration for each of them. " +
		"The other options are those of [`protect`](#protect), and mean the same.",
	Needs:  "origins https://wiki.example.com",
	Sample: "origins https://wiki.example.com\nlogin\ngroups staff",
	Options: slices.Concat([]Option{
		{
			Word: "origins", Arguments: "<origin>…", Default: "any; required with `login`",
			Text: "The origins under which browsers see the site. The gate decides about no others, and is the one of a proxy that asks about them and names no gate.", Example: "origins https://wiki.example.com https://www.wiki.example.com", Instead: "-",
		},
		{Word: "login", Default: "bearer tokens only", Text: "Browsers without a session are sent to sign in and come back.", Example: "login"},
		{
			Word: "client_certificate_header", Arguments: "<name>", Default: "none: tokens that are bound to a certificate open nothing",
			Example: "client_certificate_header X-Client-Certificate",
			Text:    "The header in which the proxy names the certificate of the client. The proxy must set or remove it in each request, or clients can claim any certificate. Envoy over gRPC says it by itself: there the header counts only from a proxy of `forward_auth_from` in front of Envoy.",
		},
	}, ofGates(Protect.Options)),
	Instead: map[string]string{ //nolint:gosec // no credentials
		"replay":         "is for sites that this Caddy serves: another proxy does not report the forms that are sent through it",
		"mcp":            "is for sites that this Caddy serves: the metadata of others is not served here",
		"upstream_token": "is for sites that this Caddy serves: another proxy sends the request on as it came",
		"request_access": "is for sites that this Caddy serves: another proxy has no page of its own to ask on",
	},
}

// ofGates are the options of a site that a gate has too.
func ofGates(of []Option) []Option {
	of = slices.DeleteFunc(slices.Clone(of), func(o Option) bool {
		return slices.Contains([]string{"login", "replay", "request_access", "mcp", "upstream_token"}, o.Word)
	})
	for i := range of {
		switch of[i].Word {
		case "shadow":
			of[i].Blocks, of[i].Arguments, of[i].Example = nil, "{ … }", "shadow {\n\tdeny {\n\t\tmatch method DELETE\n\t}\n}"
		case "limit", "quota":
			of[i].Blocks = nil
		case "plan":
			of[i].Around = "plan gold {\n\tlimit 1000/min\n}"
		case "introspect":
			of[i].Blocks, of[i].Arguments = nil, "<url> { … }"
			of[i].Example = "introspect https://login.corp.example/oauth/introspect {\n\tclient ops {env.OPS_SECRET}\n}"
		case "policy":
			of[i].Around = "policy office {\n\tallow {\n\t\tneed groups staff\n\t}\n}"
		}
	}
	return of
}
