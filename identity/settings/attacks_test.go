package settings_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// unchanged fails when what fn does is not refused with one of these statuses, or leaves something behind.
func (w *world) unchanged(name string, fn func() writeView, statuses ...int) {
	w.Helper()
	before, n := w.read("/api/v2/config")+w.read("/api/config"), len(w.events())
	a := fn()
	ok := false
	for _, s := range statuses {
		ok = ok || a.status == s
	}
	if !ok {
		w.Errorf("%s = %d %.200s, want %v", name, a.status, a.body, statuses)
	}
	if after := w.read("/api/v2/config") + w.read("/api/config"); after != before || len(w.events()) != n {
		w.Errorf("%s changed something, or wrote an event", name)
	}
	for _, internal := range []string{"goroutine", ".go:", "config.", "badger", "reflect"} {
		if strings.Contains(a.body, internal) {
			w.Errorf("%s tells of our insides: %s", name, a.body)
		}
	}
}

func TestAttacksOnPasswordPolicy(t *testing.T) {
	t.Parallel()
	with := func(member, value string) string {
		return strings.Replace(policy, fmt.Sprintf("%q:%s", member, map[string]string{"min_length": "10", "max_length": "64"}[member]), value, 1)
	}
	for name, body := range map[string]string{
		"attack 227: min above max":              with("min_length", `"min_length":65`),
		"attack 227: negative":                   with("min_length", `"min_length":-1`),
		"attack 227: zero":                       with("min_length", `"min_length":0`),
		"attack 227: 2^31":                       with("max_length", `"max_length":2147483648`),
		"attack 227: 2^63":                       with("max_length", `"max_length":9223372036854775808`),
		"attack 227: above what passwords are":   with("max_length", `"max_length":257`),
		"attack 227: a number in quotes":         with("min_length", `"min_length":"8"`),
		"attack 227: a fraction":                 with("min_length", `"min_length":8.5`),
		"attack 227: a missing member":           strings.Replace(with("min_length", ""), "{,", "{", 1),
		"attack 227: nothing":                    `{}`,
		"attack 227: no room for what is needed": `{"min_length":1,"max_length":1,"lower_case_char_required":true,"upper_case_char_required":true,"special_char_required":false,"breached_password_blocked":false}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.unchanged(name, func() writeView { return w.call("POST", "/api/v2/config/password-policy", body) }, 400)
			w.unchanged(name, func() writeView { return w.call("POST", "/api/v2/config", `{"password_policy":`+body+`}`) }, 400)
		})
	}
}

func TestAttacksOnWhitelists(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"attack 234: a wildcard":             "*",
		"attack 234: a wildcard host":        "https://*.example.com",
		"attack 234: nothing":                "",
		"attack 234: a script":               "javascript:alert(1)",
		"attack 234: data":                   "data:text/html,x",
		"attack 234: clear text":             "http://www.example.com/",
		"attack 234: a user":                 "https://good@evil.example/",
		"attack 234: a user and password":    "https://a:b@evil.example/",
		"attack 234: 10 kB":                  "https://www.example.com/" + strings.Repeat("a", 10<<10),
		"attack 234: no scheme":              "//evil.example/",
		"attack 234: no slashes":             "https:evil.example",
		"attack 234: backslashes":            `https:\\evil.example\`,
		"attack 234: a relative path":        "/welcome",
		"attack 234: dot segments":           "https://www.example.com/a/../b",
		"attack 234: encoded dot segments":   "https://www.example.com/a/%2e%2e/b",
		"attack 234: an encoded slash":       "https://www.example.com/a%2fb",
		"attack 234: a query":                "https://www.example.com/a?b=c",
		"attack 234: an empty query":         "https://www.example.com/a?",
		"attack 234: a fragment":             "https://www.example.com/a#b",
		"attack 234: a tab":                  "https://www.exa\tmple.com/",
		"attack 234: a line end":             "https://www.example.com/\r\nX: y",
		"attack 234: NUL":                    "https://www.example.com/\x00",
		"attack 234: another alphabet":       "https://www.exаmple.com/",
		"attack 234: upper case":             "HTTPS://WWW.EXAMPLE.COM/",
		"attack 234: the default port":       "https://www.example.com:443/",
		"attack 234: an empty port":          "https://www.example.com:/",
		"attack 234: an address as a number": "https://2130706433/",
		"attack 234: an address in octal":    "https://0177.0.0.1/",
		"attack 234: a trailing dot":         "https://www.example.com./",
		"attack 234: no host":                "https:///path",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			body := fmt.Sprintf(`{"url":%s}`, quote(raw))
			for _, path := range []string{"/api/v2/config/redirects/whitelisted-urls", "/api/v2/config/features/action-token/whitelisted-urls"} {
				w.unchanged(name, func() writeView { return w.call("POST", path, body) }, 400)
			}
			w.unchanged(name, func() writeView { return w.call("POST", "/api/v2/config/redirects", `{"url_whitelist":[`+body+`]}`) }, 400)
			w.unchanged(name, func() writeView {
				return w.call("POST", "/api/v2/config/features", `{"action_token":{"whitelisted_urls":[`+body+`]}}`)
			}, 400)
		})
	}
	t.Run("attack 234: a URL that is listed already", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.must(200, "POST", "/api/v2/config/redirects/whitelisted-urls", `{"url":"https://www.example.com/"}`)
		w.unchanged("a duplicate", func() writeView {
			return w.call("POST", "/api/v2/config/redirects/whitelisted-urls", `{"url":"https://www.example.com/"}`)
		}, 400)
		w.unchanged("a duplicate in one array", func() writeView {
			return w.call("POST", "/api/v2/config/redirects", `{"url_whitelist":[{"url":"https://a.example"},{"url":"https://a.example"}]}`)
		}, 400)
	})
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "\r", `\r`, "\n", `\n`, "\x00", `\u0000`).Replace(s) + `"`
}

func TestWhitelisted(t *testing.T) {
	t.Parallel()
	list := []settings.WhitelistedURL{
		{URL: "https://good.example/a"},
		{URL: "https://all.example"},
		{URL: "https://port.example:8443/b/"},
		{URL: "http://localhost:3000"},
	}
	for raw, want := range map[string]bool{
		"https://good.example/a": true, "https://good.example/a/": true, "https://good.example/a/b?c=d#e": true, "https://good.example/a?x": true,
		"https://all.example": true, "https://all.example/": true, "https://all.example/any/thing": true, "https://port.example:8443/b/c": true,
		"http://localhost:3000/x": true, "https://good.example/a/b%20c": true,

		"": false, "/a": false, "https://good.example": false, "https://good.example/b": false, "http://good.example/a": false,
		"https://port.example/b/": false, "https://port.example:8444/b/": false, "http://localhost:3001/x": false,
		"https://localhost:3000/": false,
	} {
		if got := settings.Whitelisted(list, raw); got != want {
			t.Errorf("Whitelisted(%q) = %v, want %v", raw, got, want)
		}
	}
	for name, raw := range map[string]string{
		"attack 233: a longer host":              "https://good.example.evil.example/a",
		"attack 233: a user":                     "https://good.example@evil.example/a",
		"attack 233: a user with a slash":        "https://good.example%2fa@evil.example/a",
		"attack 233: no scheme":                  "//evil.example/a",
		"attack 233: no scheme, our host":        "//good.example/a",
		"attack 233: no slashes":                 "https:good.example/a",
		"attack 233: three slashes":              "https:///good.example/a",
		"attack 233: backslashes":                `\\evil.example/a`,
		"attack 233: a backslash in the host":    `https://evil.example\@good.example/a`,
		"attack 233: a backslash for a slash":    `https://good.example\a`,
		"attack 233: dot segments":               "https://good.example/a/../b",
		"attack 233: a dot segment":              "https://good.example/a/./b",
		"attack 233: encoded dot segments":       "https://good.example/a/%2e%2e/b",
		"attack 233: half encoded dot segments":  "https://good.example/a/.%2E/b",
		"attack 233: an encoded slash":           "https://good.example/a%2f..%2fb",
		"attack 233: encoded twice":              "https://good.example/a/%252e%252e/b",
		"attack 233: a longer segment":           "https://good.example/aX",
		"attack 233: upper case":                 "HTTPS://GOOD.EXAMPLE/a",
		"attack 233: another port":               "https://good.example:8443/a",
		"attack 233: a tab":                      "https://good.example/\ta",
		"attack 233: a tab in the host":          "https://go\tod.example/a",
		"attack 233: a line end":                 "https://good.example/a\n",
		"attack 233: a space before":             " https://good.example/a",
		"attack 233: an encoded dot in the host": "https://good%2eexample/a",
		"attack 233: another alphabet":           "https://gооd.example/a",
		"attack 233: a full width dot":           "https://good。example/a",
		"attack 233: an international name":      "https://xn--good-example/a",
		"attack 233: a trailing dot":             "https://good.example./a",
		"attack 233: a query that is no path":    "https://evil.example?https://good.example/a",
		"attack 233: a fragment that is no path": "https://evil.example#https://good.example/a",
		"attack 233: a bracket":                  "https://[good.example]/a",
		"attack 233: a script":                   "javascript://good.example/a%0aalert(1)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if settings.Whitelisted(list, raw) {
				t.Errorf("Whitelisted(%q) = true, want false", raw)
			}
		})
	}
}

// FuzzWhitelisted: whatever is let through has one of the origins and paths when net/url reads it, as it stands.
func FuzzWhitelisted(f *testing.F) {
	for _, s := range []string{
		"https://good.example/a", "https://good.example@evil/a", `https://good.example\a`, "https://good.example/a/../",
		"HTTPS://good.example/a",
	} {
		f.Add(s)
	}
	list := []settings.WhitelistedURL{{URL: "https://good.example/a"}}
	f.Fuzz(func(t *testing.T, raw string) {
		if !settings.Whitelisted(list, raw) {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.Host != "good.example" || u.User != nil || u.Path != "/a" &&
			!strings.HasPrefix(u.Path, "/a/") || strings.Contains(u.Path, "..") {
			t.Fatalf("Whitelisted(%q) = true: %+v", raw, u)
		}
		if !strings.HasPrefix(raw, "https://good.example/a") {
			t.Fatalf("Whitelisted(%q) = true", raw)
		}
	})
}

func TestAttacksOnExpressions(t *testing.T) {
	t.Parallel()
	set := func(before, after string) string {
		return fmt.Sprintf(`{"custom_email_validation":{"enabled":true,"before_at_regex":%s,"after_at_regex":%s}}`, quote(before), quote(after))
	}
	t.Run("attack 242: catastrophic backtracking", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.must(204, "POST", "/api/v2/config/features", set("(a+)+$", ""))
		u := w.units(w.service)
		start := time.Now()
		if u.Features.CustomEmailValidation.Check(strings.Repeat("a", 100<<10) + "!@example.com") {
			t.Error("100 kB are an e-mail address")
		}
		if u.Features.CustomEmailValidation.Check(strings.Repeat("a", 200) + "!@example.com") {
			t.Error("what does not match passes")
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("it took %v", d)
		}
	})
	for name, expr := range map[string]string{
		"attack 242: nested repetition":      "((a{0,1000}){0,1000}){0,100}",
		"attack 242: malformed":              "(",
		"attack 242: closes the group":       "a)|(?:.*",
		"attack 242: 1 MB":                   strings.Repeat("a", 1<<20),
		"attack 242: longer than is allowed": strings.Repeat("a", 513),
		"attack 242: a back reference":       `(a)\1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.unchanged(name, func() writeView { return w.call("POST", "/api/v2/config/features", set(expr, "")) }, 400, 413)
			w.unchanged(name, func() writeView { return w.call("POST", "/api/v2/config/features", set("", expr)) }, 400, 413)
		})
	}
	w := newWorld(t)
	w.must(204, "POST", "/api/v2/config/features", set("[a-z]+|anybody", `example\.com|b`))
	v := w.units(w.service).Features.CustomEmailValidation
	for name, tt := range map[string]struct {
		address string
		want    bool
	}{
		"a good one":                         {"x@example.com", true},
		"the other alternative":              {"anybody@b", true},
		"attack 243: a longer domain":        {"x@example.com.evil", false},
		"attack 243: a longer domain before": {"x@evilexample.com", false},
		"attack 243: another domain":         {"x@exampleXcom", false},
		"attack 243: two at signs":           {"x@evil@example.com", false},
		"attack 243: a quoted at sign":       {`"x@y"@example.com`, false},
		"attack 243: a line end":             {"x@example.com\n", false},
		"attack 243: another line":           {"x@example.com\n@evil", false},
		"attack 243: upper case":             {"X@example.com", false},
		"attack 243: nothing before":         {"@example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := v.Check(tt.address); got != tt.want {
				t.Errorf("Check(%q) = %v, want %v", tt.address, got, tt.want)
			}
		})
	}
}

func TestAttacksOnAccess(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	var paths []string
	for op := range documented {
		_, path, _ := strings.Cut(op, " ")
		paths = append(paths, w.fill(path))
	}
	paths = append(paths, "/v2/config/certificates", "/v2/config/certificates/x", "/v2/config/certificates/batch", "/api/v2", "/api/v2/",
		"/api/v2/nothing", "/v2/config")
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND"}
	t.Run("attack 244: every path by every method, without credentials and with wrong ones", func(t *testing.T) {
		for _, path := range paths {
			for _, method := range methods {
				for _, auth := range []string{"", "Basic Og==", "Bearer abc", "Basic " + strings.Repeat("x", 4096)} {
					a := w.call(method, path, "{", "Authorization", auth)
					if a.status != 401 || a.header.Get("WWW-Authenticate") == "" && auth == "" {
						t.Fatalf("%s %s with Authorization %.20q = %d, want 401", method, path, auth, a.status)
					}
				}
			}
		}
	})
	t.Run("attack 244: an API client without this API", func(t *testing.T) {
		for _, path := range paths {
			r := httptest.NewRequest("GET", path, nil)
			r.SetBasicAuth("other", "secret")
			rec := httptest.NewRecorder()
			w.handler.ServeHTTP(rec, r)
			if rec.Code != 403 {
				t.Errorf("GET %s = %d, want 403", path, rec.Code)
			}
		}
	})
	t.Run("attack 244: methods that there are not", func(t *testing.T) {
		for _, path := range paths {
			for _, method := range []string{"PATCH", "TRACE", "OPTIONS", "get"} {
				a := w.call(method, path, "")
				if a.status != 405 && a.status != 404 || a.status == 405 && a.header.Get("Allow") == "" {
					t.Errorf("%s %s = %d with Allow %q", method, path, a.status, a.header.Get("Allow"))
				}
			}
		}
	})
	t.Run("attack 244: while the API is switched off", func(t *testing.T) {
		w := prepared(t)
		w.must(204, "POST", "/api/v2/config/features", `{"configuration_api_enabled":false}`)
		for op := range documented {
			method, path, _ := strings.Cut(op, " ")
			want := 409
			if strings.HasPrefix(path, "/api/config") {
				want = 500
			}
			path = strings.NewReplacer("{", "", "}", "").Replace(path)
			w.must(401, method, path, "", "Authorization", "")
			w.must(want, method, path, "")
			w.must(want, "PATCH", path, "")
		}
	})
	t.Run("attack 257: a form that another site posts with remembered credentials", func(t *testing.T) {
		for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/json"} {
			w.unchanged(kind, func() writeView {
				return w.call("POST", "/api/v2/config/features", `{"login_enabled":false}`, "Content-Type", kind, "Origin", "https://evil.example",
					"Sec-Fetch-Site", "cross-site")
			}, 403, 415)
			w.unchanged(kind, func() writeView {
				return w.call("POST", "/api/v2/config/features", `{"login_enabled":false}`, "Content-Type", strings.Replace(kind, "json", "jsonp", 1))
			}, 415)
		}
	})
	t.Run("attack 258: clear text from elsewhere", func(t *testing.T) {
		gate := &jsonapi.Gate{Log: zap.NewNop(), Issuer: "https://auth.example.com", Authorize: authorize}
		h := settings.NewAPI(w.service, gate, nil)
		for peer, want := range map[string]int{
			"203.0.113.7:1": 403, "10.0.0.1:1": 403, "[::ffff:203.0.113.7]:1": 403,
			"127.0.0.1:1": 200, "[::1]:1": 200,
		} {
			r := httptest.NewRequest("GET", "/api/v2/config/features", nil)
			r.SetBasicAuth("ops", "secret")
			r.RemoteAddr = peer
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if rec.Code != want {
				t.Errorf("http from %s = %d, want %d", peer, rec.Code, want)
			}
		}
	})
}

func TestAttacksOnPaths(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	u := w.units(w.service)
	action, redirect := u.Features.ActionToken.WhitelistedURLs[0].ID, u.Redirects.URLWhitelist[0].ID
	for name, tt := range map[string]struct{ method, path, body string }{
		"attack 246: a service provider of another organisation": {"GET", "/api/v2/config/organisations/acme/service-providers/theirs", ""},
		"attack 246: a change of a service provider of another one": {
			"POST",
			"/api/v2/config/organisations/acme/service-providers/theirs", `{"name":"x"}`,
		},
		"attack 246: a URL of the other list": {"DELETE", "/api/v2/config/redirects/whitelisted-urls/" + action, ""},
		"attack 246: a URL of the other list, the other way round": {
			"DELETE",
			"/api/v2/config/features/action-token/whitelisted-urls/" + redirect, "",
		},
		"attack 246: an organisation that is a certificate": {"GET", "/api/v2/config/organisations/batch/service-providers", ""},
		"attack 246: a certificate that is a URL":           {"GET", "/v2/config/certificates/" + action, ""},
		"attack 247: encoded dot segments in an id": {
			"GET",
			"/api/v2/config/organisations/..%2f..%2ffeatures/service-providers", "",
		},
		"attack 247: dot segments in an id": {"GET", "/api/v2/config/organisations/%2e%2e/service-providers", ""},
		"attack 247: NUL":                   {"GET", "/api/v2/config/organisations/acme%00/service-providers", ""},
		"attack 247: a quote":               {"GET", "/api/v2/config/organisations/'%20OR%201=1--/service-providers", ""},
		"attack 247: 10 kB": {
			"GET",
			"/api/v2/config/organisations/" + strings.Repeat("a", 10<<10) + "/service-providers", "",
		},
		"attack 247: a placeholder": {"GET", "/api/v2/config/organisations/%7Benv.X%7D/service-providers", ""},
		"attack 247: a name of the route": {
			"GET",
			"/api/v2/config/organisations/%7Borganisation-id%7D/service-providers", "",
		},
		"attack 247: not UTF-8":                    {"GET", "/api/v2/config/organisations/%ff%fe/service-providers", ""},
		"attack 247: a line end":                   {"DELETE", "/api/v2/config/custom-messages/nl_NL/a%0d%0aX:%20y", ""},
		"attack 247: a locale with dot segments":   {"PUT", "/api/v2/config/custom-messages/..%2f..%2fetc/batch", `{"a":"b"}`},
		"attack 247: a locale that is a path":      {"PUT", "/api/v2/config/custom-messages/%2fetc%2fpasswd/batch", `{"a":"b"}`},
		"attack 247: a locale with a backslash":    {"PUT", "/api/v2/config/custom-messages/..%5cnl/batch", `{"a":"b"}`},
		"attack 247: a locale with a dot":          {"PUT", "/api/v2/config/custom-messages/nl.json/batch", `{"a":"b"}`},
		"attack 247: a locale that is no language": {"PUT", "/api/v2/config/custom-messages/__proto__/batch", `{"a":"b"}`},
		"attack 247: a doubled slash":              {"GET", "/api/v2//config/features", ""},
		"attack 247: a matrix parameter":           {"GET", "/api/v2/config/features;x=y", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{TB: t, store: w.store, service: w.service, handler: w.handler}
			w.unchanged(name, func() writeView { return w.call(tt.method, tt.path, tt.body) }, 400, 404)
		})
	}
}

func TestAttacksOnBodies(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	const features, units = "/api/v2/config/features", "/api/v2/config"
	for name, tt := range map[string]struct{ method, path, body string }{
		"attack 248: an id for a new URL": {
			"POST", "/api/v2/config/redirects/whitelisted-urls",
			`{"url":"https://a.example","id":"0b6d2a4e-6d4e-4b3e-9d5f-111111111111"}`,
		},
		"attack 248: an id that is not there": {
			"POST", units,
			`{"redirects":{"url_whitelist":[{"url":"https://a.example","id":"0b6d2a4e-6d4e-4b3e-9d5f-111111111111"}]}}`,
		},
		"attack 248: enabled and removable": {"POST", features, `{"login_enabled":true,"enabled":true,"removable":true}`},
		"attack 248: a role":                {"POST", units, `{"role":"admin","features":{"login_enabled":false}}`},
		"attack 248: a private key":         {"POST", units, `{"organisations":[{"private_key":"x"}]}`},
		"attack 248: verified":              {"POST", "/api/v2/attributes", `{"verification":{"verified":true}}`},
		"attack 248: a password hash": {
			"POST", units,
			`{"login_methods":{"login_methods":[{"type":"LDAP","ladp_attributes":{"password_hash":"x"}}]}}`,
		},
		"attack 248: another organisation": {
			"POST", "/api/v2/config/organisations/acme/service-providers/one",
			`{"organisation":"other"}`,
		},
		"attack 249: names that differ in case": {"POST", features, `{"login_enabled":true,"Login_Enabled":false}`},
		"attack 249: a name in another case":    {"POST", features, `{"LOGIN_ENABLED":false}`},
		"attack 249: a name twice":              {"POST", features, `{"login_enabled":true,"login_enabled":false}`},
		"attack 249: a name twice, escaped":     {"POST", features, `{"login_enabled":true,"login\u005fenabled":false}`},
		"attack 249: a long s":                  {"POST", features, `{"ſms_enabled":true}`},
		"attack 249: a Kelvin sign": {
			"POST", units,
			`{"login_methods":{"login_methods":[{"type":"KERBEROS","\u212aerberos_attributes":{}}]}}`,
		},
		"attack 249: a message twice":    {"PUT", "/api/v2/config/custom-messages/nl/batch", `{"a":"1","a":"2"}`},
		"attack 251: a depth of 100,000": {"POST", units, strings.Repeat(`{"features":`, 40_000)},
		"attack 251: 100,000 arrays":     {"POST", units, `{"organisations":` + strings.Repeat("[", 100_000)},
		"attack 251: many members":       {"PUT", "/api/v2/config/custom-messages/nl/batch", members(60_000)},
		"attack 251: a million members":  {"PUT", "/api/v2/config/custom-messages/nl/batch", members(1_000_000)},
		"attack 251: a string of 64 MB": {
			"PUT", "/api/v2/config/custom-messages/nl/batch",
			`{"a":"` + strings.Repeat("x", 64<<20) + `"}`,
		},
		"attack 251: a number of 400 kB": {
			"POST", features,
			`{"action_token":{"login":{"ttl":` + strings.Repeat("9", 400_000) + `}}}`,
		},
		"attack 251: a message that is too long": {
			"PUT", "/api/v2/config/custom-messages/nl/batch",
			`{"a":"` + strings.Repeat("x", 4097) + `"}`,
		},
		"attack 251: a name that is too long": {
			"PUT", "/api/v2/config/custom-messages/nl/batch",
			`{"` + strings.Repeat("x", 257) + `":"a"}`,
		},
		"attack 252: a batch with one bad item": {"PUT", "/api/v2/config/custom-messages/nl/batch", `{"a":"1","b":"2","c\u0000":"3"}`},
		"attack 252: units of which one is bad": {
			"POST", units,
			`{"features":{"login_enabled":false},"redirects":{"url_after_login":"ftp://x"}}`,
		},
		"attack 252: units of which the last is bad": {
			"POST", units,
			`{"messages":{"nl":{"a":"b"}},"attributes":{"verification":{"email_required":1}}}`,
		},
		"attack 252: an array of which one is bad": {
			"POST", "/api/v2/config/organisations/acme/service-providers",
			`[{"id":"x"},{"id":"y","saml_metadata":"<x/>"}]`,
		},
		"attack 252: units of which one does nothing": {
			"POST", units,
			`{"features":{"login_enabled":false},"ui_extension":{"enable_login_redirect":true}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{TB: t, store: w.store, service: w.service, handler: w.handler}
			w.unchanged(name, func() writeView { return w.call(tt.method, tt.path, tt.body) }, 400, 409, 413)
		})
	}
	t.Run("attack 252: two administrators with one state before their eyes", func(t *testing.T) {
		w := prepared(t)
		tag := w.must(200, "GET", features, "").header.Get("ETag")
		var all sync.WaitGroup
		var won, lost int
		var mu sync.Mutex
		for i := range 2 {
			all.Go(func() {
				a := w.call("POST", features, fmt.Sprintf(`{"action_token":{"login":{"ttl":%d}}}`, 10+i), "If-Match", tag)
				mu.Lock()
				defer mu.Unlock()
				switch a.status {
				case http.StatusNoContent:
					won++
				case http.StatusPreconditionFailed:
					lost++
				}
			})
		}
		all.Wait()
		if won != 1 || lost != 1 {
			t.Errorf("%d won and %d lost, want 1 and 1", won, lost)
		}
	})
	t.Run("attack 252: a storage that fails in the middle", func(t *testing.T) {
		w := prepared(t)
		w.unchanged("a failing commit", func() writeView {
			w.store.failUpdates(true)
			defer w.store.failUpdates(false)
			return w.call("POST", units, `{"features":{"login_enabled":false},"messages":{"nl":{"a":"b"}}}`)
		}, 503)
	})
}

// members is an object of n members with names of their own.
func members(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%x":""`, i)
	}
	b.WriteByte('}')
	return b.String()
}
