package e2e

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// traefikConfig is the part of Traefik's dynamic configuration that the guide uses.
type traefikConfig struct {
	HTTP struct {
		Middlewares map[string]struct {
			ForwardAuth *struct {
				Address             string   `yaml:"address"`
				TrustForwardHeader  *bool    `yaml:"trustForwardHeader"`
				AuthResponseHeaders []string `yaml:"authResponseHeaders"`
			} `yaml:"forwardAuth"`
			ReplacePathRegex *struct {
				Regex       string `yaml:"regex"`
				Replacement string `yaml:"replacement"`
			} `yaml:"replacePathRegex"`
		} `yaml:"middlewares"`
		Routers map[string]struct {
			Rule        string   `yaml:"rule"`
			Middlewares []string `yaml:"middlewares"`
			Service     string   `yaml:"service"`
		} `yaml:"routers"`
		Services map[string]struct {
			LoadBalancer struct {
				PassHostHeader *bool `yaml:"passHostHeader"`
				Servers        []struct {
					URL string `yaml:"url"`
				} `yaml:"servers"`
			} `yaml:"loadBalancer"`
		} `yaml:"services"`
	} `yaml:"http"`
}

var traefikRule = regexp.MustCompile("^Host\\(`([^`]*)`\\)(?: && PathPrefix\\(`([^`]*)`\\))?$")

// traefik does what Traefik's sources do with a request: pkg/middlewares/forwardedheaders, auth/forward.go and
// replacepathregex.
func (g *gateways) traefik(t *testing.T, at string, port int) {
	t.Helper()
	var c traefikConfig
	readYAML(t, g.foreign(example(t, g.document, "Traefik", "yaml"), "traefik", at), &c)
	// The longest rule goes first.
	routers := slices.SortedFunc(maps.Keys(c.HTTP.Routers),
		func(a, b string) int { return len(c.HTTP.Routers[b].Rule) - len(c.HTTP.Routers[a].Rule) })
	for _, name := range routers {
		if !traefikRule.MatchString(c.HTTP.Routers[name].Rule) {
			t.Fatalf("the rule %s is unknown", c.HTTP.Routers[name].Rule)
		}
	}
	transport := g.transport(at, nil)
	g.stands(t, port, func(w http.ResponseWriter, r *http.Request) {
		name := ""
		for _, candidate := range routers {
			rule := traefikRule.FindStringSubmatch(c.HTTP.Routers[candidate].Rule)
			if name == "" && r.Host == rule[1] && strings.HasPrefix(r.URL.Path, rule[2]) {
				name = candidate
			}
		}
		if name == "" {
			http.NotFound(w, r)
			return
		}
		client := r.Header.Clone()
		for key := range r.Header {
			if strings.HasPrefix(strings.ReplaceAll(key, "_", "-"), "X-Forwarded-") {
				delete(r.Header, key) // no address is trusted at the entry point
			}
		}
		for _, middleware := range c.HTTP.Routers[name].Middlewares {
			m := c.HTTP.Middlewares[middleware]
			if m.ReplacePathRegex != nil {
				path := regexp.MustCompile(m.ReplacePathRegex.Regex).ReplaceAllString(r.URL.EscapedPath(), m.ReplacePathRegex.Replacement)
				r.URL.RawPath = path
				r.URL.Path, _ = url.PathUnescape(path) //nolint:errcheck // it is escaped
			}
			a := m.ForwardAuth
			if a == nil {
				continue
			}
			if a.TrustForwardHeader != nil && *a.TrustForwardHeader { // behind entry points that trust the client, too
				maps.Copy(r.Header, client)
			}
			req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, a.Address, nil)
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			req.Header = r.Header.Clone()
			for key, value := range map[string]string{
				"X-Forwarded-Method": r.Method, "X-Forwarded-Proto": "https", "X-Forwarded-Host": r.Host, "X-Forwarded-Uri": r.URL.RequestURI(),
				"X-Forwarded-For": clientOf(r),
			} {
				if req.Header.Get(key) == "" {
					req.Header.Set(key, value)
				}
			}
			res, err := asks(transport, 30*time.Second, req)
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			if res.StatusCode < 200 || res.StatusCode > 299 {
				if to, err := res.Location(); err == nil {
					res.Header.Set("Location", to.String())
				}
				copies(w, res)
				return
			}
			for _, key := range a.AuthResponseHeaders {
				key = http.CanonicalHeaderKey(key)
				delete(r.Header, key)
				if values := res.Header[key]; len(values) > 0 {
					r.Header[key] = values
				}
			}
		}
		service := c.HTTP.Services[c.HTTP.Routers[name].Service].LoadBalancer
		server, err := url.Parse(service.Servers[0].URL)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		passBy(transport, server, service.PassHostHeader == nil || *service.PassHostHeader).ServeHTTP(w, r)
	})
}
