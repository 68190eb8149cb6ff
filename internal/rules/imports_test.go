package rules

import (
	"slices"
	"strings"
	"testing"
)

// mayImport says which of our packages the packages below a directory may import, besides those below that directory
// itself. The longest directory that fits decides.
var mayImport = map[string][]string{
	".":                          {"caddymodule"},
	"cmd":                        {"."},
	"caddymodule":                {"authz", "identity", "idp", "storage", "storage/transfer", "internal"},
	"caddymodule/client":         {"caddymodule/internal", "authz", "internal"},
	"caddymodule/clientcert":     {"caddymodule/internal", "authz/certificate"},
	"caddymodule/command":        {"caddymodule/backup", "caddymodule/manage", "caddymodule/explain", "caddymodule/protect", "caddymodule/internal", "caddymodule/client", "authz", "identity", "idp", "storage", "storage/transfer", "internal"},
	"caddymodule/core":           {"caddymodule/metrics", "authz/dpop", "authz/keys", "authz/site", "authz/token", "identity/lookup", "identity/session", "storage", "storage/badgerstore", "storage/transfer", "internal"},
	"caddymodule/console":        {"caddymodule/alert", "caddymodule/backup", "caddymodule/internal/finding", "caddymodule/manage", "authz", "identity", "idp", "storage", "internal"},
	"caddymodule/console/setup":  {"caddymodule/console/frame", "authz", "identity", "idp", "storage", "internal"},
	"caddymodule/console/frame":  {"caddymodule/manage", "authz", "identity", "storage", "internal"},
	"caddymodule/console/upkeep": {"caddymodule/console/frame", "caddymodule/backup", "identity", "storage", "internal"},
	"caddymodule/alert":          {"identity/notify", "identity/person", "storage", "internal"},
	"caddymodule/backup":         {"storage", "storage/transfer", "internal"},
	"caddymodule/admins":         {"caddymodule/console", "caddymodule/internal"},
	"caddymodule/manage":         {"authz", "identity", "storage", "internal"},
	"caddymodule/delivery":       {"caddymodule/internal", "identity", "internal"},
	"caddymodule/internal":       {"internal"},
	"caddymodule/metrics":        {"identity", "storage", "storage/badgerstore", "storage/pgstore", "internal"},
	"caddymodule/introspect":     {"caddymodule/internal", "authz/token", "internal"},
	"caddymodule/listener":       {},
	"caddymodule/policy/stored":  {"caddymodule/policy", "identity", "storage", "internal"},
	"caddymodule/policy":         {"caddymodule/internal", "authz/token", "internal"},
	"caddymodule/forwardauth":    {"caddymodule/extauthz", "caddymodule/clientcert", "caddymodule/protect", "caddymodule/mcp", "caddymodule/policy", "caddymodule/internal", "authz", "idp", "internal"},
	"caddymodule/authzen":        {"internal"},
	"caddymodule/mcp":            {"caddymodule/internal", "internal"},
	"caddymodule/protect":        {"caddymodule/policy", "caddymodule/introspect", "caddymodule/mcp", "caddymodule/internal", "authz", "idp", "internal"},
	"caddymodule/provider":       {"caddymodule/internal", "authz", "identity", "idp", "storage", "internal"},
	"authz":                      {"storage", "internal"},
	"authz/assertion":            {"authz/keys", "internal"},
	"authz/oauth":                {"storage", "internal"},
	"authz/keys":                 {"storage", "internal"},
	"authz/certificate":          {},
	"authz/client":               {"authz/certificate", "authz/oauth", "internal"},
	"authz/keyset":               {},
	"authz/parked":               {"storage", "internal"},
	"authz/verified":             {"internal"},
	"authz/reply":                {},
	"authz/metadoc":              {"authz/client", "authz/oauth", "internal"},
	"authz/trust":                {"authz/keyset", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/details":              {"internal"},
	"authz/registry":             {"authz/details", "authz/keyset", "authz/metadoc", "authz/trust", "authz/client", "authz/certificate", "authz/oauth", "storage", "internal"},
	"authz/consent":              {"authz/details", "authz/client", "storage", "internal"},
	"authz/device":               {"authz/grant", "authz/consent", "authz/reply", "authz/token", "authz/registry", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/envelope":             {"authz/client", "authz/keys", "internal"},
	"authz/jar":                  {"authz/client", "authz/oauth", "internal"},
	"authz/registration":         {"authz/reply", "authz/token", "authz/registry", "authz/metadoc", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/dpop":                 {"authz/oauth", "storage", "internal"},
	"authz/idjag":                {"authz/grant", "authz/reply", "authz/token", "authz/trust", "authz/registry", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/exchange":             {"authz/keys", "authz/grant", "authz/reply", "authz/token", "authz/registry", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/par":                  {"authz/reply", "authz/registry", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/grant":                {"authz/envelope", "authz/consent", "authz/reply", "authz/personal", "authz/visit", "authz/token", "authz/registry", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/visit":                {"authz/token", "authz/registry", "authz/keys", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/signal":               {"authz/reply", "authz/token", "authz/registry", "authz/keys", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/personal":             {"authz/token", "authz/registry", "authz/client", "authz/oauth", "storage", "internal"},
	"authz/site":                 {"authz/token", "authz/oauth", "storage", "internal"},
	"authz/token":                {"authz/details", "authz/envelope", "authz/verified", "authz/registry", "authz/keys", "authz/client", "authz/oauth", "storage", "internal"},
	"identity":                   {"idp", "storage", "internal"},
	"identity/config":            {"identity/config/effect", "identity/keypair", "storage", "internal"},
	"identity/config/effect":     {},
	"identity/config/kind":       {"identity/config/address", "internal"},
	"identity/keypair":           {"identity/config", "storage", "internal"}, // config for its tests alone: the compiler refuses the circle
	"identity/api":               {"identity", "idp/idptest", "storage", "internal"},
	"identity/scim":              {"identity", "storage", "internal"},
	"identity/notify":            {"identity", "storage", "internal"},
	"idp/saml/frontdoor":         {},
	"idp":                        {"internal/secret", "internal/login", "internal/loopback", "internal/pace", "internal/strictjson", "internal/breaker", "internal/signature"},
	"storage":                    {},
	"storage/badgerstore":        {"storage", "storage/engine", "storage/transfer"},
	"storage/transfer":           {"storage"},
	"storage/storagetest":        {"storage"},
	"internal":                   {"storage", "internal"},
	"internal/compat":            {"caddymodule/alert", "caddymodule/backup", "caddymodule/manage", "authz", "identity", "storage", "storage/transfer", "internal"}, // it reads every table
	"internal/cluster":           {"storage"},
	"internal/standins":          {"idp"},
	"internal/secret":            {},
	"internal/login":             {"storage"},
	"internal/loopback":          {},
	"internal/near":              {},
	"internal/strictjson":        {"internal/near"},
	"e2e":                        {},
	"faults":                     {"storage"},
	"bench":                      {"storage", "faults"},

	"caddymodule/console/gateway":  {"caddymodule/console/frame", "caddymodule/manage", "authz", "identity", "storage", "internal"},
	"caddymodule/sites":            {"caddymodule/console/gateway", "caddymodule/command/admin", "caddymodule/command/doctor", "caddymodule/explain", "caddymodule/forwardauth", "caddymodule/manage", "caddymodule/policy", "caddymodule/protect", "caddymodule/internal", "authz", "identity", "storage", "internal"},
	"caddymodule/serviceprovider":  {"caddymodule/internal", "identity/serviceprovider", "internal"},
	"caddymodule/extauthz":         {"caddymodule/forwardauth", "caddymodule/internal", "internal"},
	"caddymodule/explain":          {"caddymodule/policy", "caddymodule/protect", "caddymodule/internal", "authz", "internal"},
	"caddymodule/command/admin":    {"caddymodule/backup", "caddymodule/manage", "caddymodule/explain", "caddymodule/protect", "caddymodule/internal", "caddymodule/client", "authz", "identity", "idp", "storage", "internal"},
	"caddymodule/command/doctor":   {"internal/cookie"},
	"caddymodule/command/mcpcheck": {},
	"caddymodule/command/movein":   {"caddymodule/internal", "caddymodule/client"},

	"caddymodule/postgres": {"caddymodule/internal", "storage", "storage/pgstore", "internal"},
	"storage/engine":       {"storage"},
	"storage/pgstore":      {"storage", "storage/engine", "storage/transfer"},

	"internal/answers/modeltest": {"authz", "identity", "storage", "internal"}, // it asks everybody
}

// drivers are libraries that one directory alone may import, so that they can be replaced there and nowhere else.
var drivers = []struct{ library, dir, why string }{
	{"github.com/caddyserver/", "caddymodule", "Caddy lives in caddymodule, protocol rules elsewhere"},
	{"github.com/dgraph-io/", "storage/badgerstore", "a driver stays in its backend"},
	{"github.com/jackc/", "storage/pgstore", "a driver stays in its backend"},
	{"github.com/crewjam/saml", "idp/saml", "a protocol library stays in its provider"},
	{"github.com/go-ldap/", "idp/ldap", "a protocol library stays in its provider"},
	{"github.com/jcmturner/", "idp/kerberos", "a protocol library stays in its provider"},
	{"github.com/go-asn1-ber/", "idp/ldap", "a protocol library stays in its provider"},
	{"github.com/chromedp/", "e2e", "what only tests need stays out of our go.mod"},
}

// mains may name Caddy or a driver: they are programs that link it or measure against it.
var mains = []string{"cmd", "bench", "faults", "e2e"}

func TestImportsOfOurs(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		allowed, rule := allowedFor(f.dir())
		for _, i := range f.ast.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			if p != module && !strings.HasPrefix(p, module+"/") {
				continue
			}
			target := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if target == "" {
				target = "."
			}
			if f.dir() == target || under(target, rule) && rule != "." || permits(allowed, target) {
				continue
			}
			if harness(f) && under(target, "storage") { // tests run on a real store
				continue
			}
			tree, _, _ := strings.Cut(f.dir(), "/")
			if f.test() && slices.Contains(protocol, tree) && (under(target, tree) || permits(mayImport[tree], target)) {
				continue // tests of a package go through the service that it is part of
			}
			t.Errorf("%s imports %s: packages below %q may import %v of ours; what both need goes to internal/, what ties them together to caddymodule",
				f.at(i), target, rule, allowed)
		}
	}
}

func TestAuthzAndIdentityAreStrangers(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, i := range f.ast.Imports {
			p := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
			if under(f.dir(), "authz") && under(p, "identity") || under(f.dir(), "identity") && under(p, "authz") {
				t.Errorf("%s imports %s: authz declares the small interfaces that it needs, identity implements them, caddymodule ties them", f.at(i), p)
			}
		}
	}
}

func TestDriversStayAtHome(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if slices.ContainsFunc(mains, func(m string) bool { return under(f.dir(), m) }) {
			continue
		}
		for _, i := range f.ast.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			for _, d := range drivers {
				if strings.HasPrefix(p, d.library) && !under(f.dir(), d.dir) {
					t.Errorf("%s imports %s: only %s may: %s", f.at(i), p, d.dir, d.why)
				}
			}
		}
	}
}

// harness tells whether a file is test code: a _test.go file or a package such as authztest.
func harness(f source) bool {
	return f.test() || strings.HasSuffix(f.dir(), "test")
}

func permits(allowed []string, target string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		if a == "storage" || a == "." { // an engine is named by caddymodule alone
			return target == a
		}
		return under(target, a)
	})
}

func allowedFor(dir string) (allowed []string, rule string) {
	rule = "."
	for r := range mayImport {
		if under(dir, r) && (rule == "." || len(r) > len(rule)) {
			rule = r
		}
	}
	allowed = mayImport[rule]
	if rule == "caddymodule" {
		allowed = append(slices.Clone(allowed), "storage/badgerstore", "storage/pgstore")
	}
	return allowed, rule
}
