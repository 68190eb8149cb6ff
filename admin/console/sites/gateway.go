// Package sites has the screens of the admin console for the protected sites: the sites, their refusals with the
// reasons, the policies, and the outcome of a hypothetical request.
package sites

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// Deps are the dependencies of the screens.
type Deps struct {
	// Sites returns the sites of the configuration, in the order of their names.
	Sites func() ([]Site, error)
	// Explain returns the outcome of a hypothetical request. Its error is a *Wrong, or a failure.
	Explain func(r *http.Request, q Question) (*Explanation, error)
	// Rules returns the rules of a policy of the Caddyfile.
	Rules func(policy string) []Rule
	// Differences returns the newest requests at sites, by their origins, that shadow rules would decide differently.
	Differences func(ctx context.Context, origins []string, limit int) ([]Difference, error)
	// TestPolicy tests one policy alone with cases. The policy need not be stored. p nil: that of the Caddyfile. Its error
	// is a *Wrong, or a failure.
	TestPolicy func(r *http.Request, name string, p *settings.Policy, cases string) ([]Tested, error)
	// WritePolicy returns a policy in the syntax of the Caddyfile, or "" for one that has more than this syntax. nil:
	// policies are JSON alone
	WritePolicy func(p *settings.Policy) string
	// ReadPolicy reads a policy in this syntax, with the lines on which its rules begin, those of deny first. Its error is
	// a *Wrong.
	ReadPolicy func(text string) (p settings.Policy, lines []int, err error)
	// Doctor probes sites.
	Doctor Doctor
	// Settings have the policies.
	Settings *settings.Service
	// Access are the requests for access.
	Access *access.Service
	// Refusals are those of the last day.
	Refusals *denial.Recorder
	Manage   *admin.Service
}

// Site is a protected address.
type Site struct {
	ID    string // in addresses
	Name  string // its host, by which it is counted. Empty: it is not known, and counted together with others
	Gates []Gate
}

// hosts are the names under which requests of the site are refused.
func (s *Site) hosts() (out []string) {
	for _, g := range s.Gates {
		for _, origin := range g.Origins {
			if u, err := url.Parse(origin); err == nil {
				out = append(out, u.Host)
			}
		}
	}
	if len(out) == 0 {
		out = append(out, s.ID)
	}
	return out
}

// maxRemedies is the number of groups that a refusal offers.
const maxRemedies = 3

// groups returns the first groups that the site and its allow rules name.
func (s *Site) groups() (out []string) {
	add := func(asks []string) {
		for _, ask := range asks {
			words := strings.Fields(strings.TrimPrefix(ask, "need "))
			if len(words) < 2 || words[0] != "groups" && words[0] != "group" {
				continue
			}
			for _, group := range words[1:] {
				if group = strings.Trim(group, `"`); !slices.Contains(out, group) && len(out) < maxRemedies {
					out = append(out, group)
				}
			}
		}
	}
	for _, g := range s.Gates {
		add(g.Asks)
		for _, r := range g.Rules {
			if r.Kind == "allow" {
				add(r.Asks)
			}
		}
	}
	return out
}

// Gate is one directive that decides about requests of a site.
type Gate struct {
	Kind     string // protect or forward_auth
	Name     string // of a forward_auth
	Place    string // file:line. Empty: unknown
	Origins  []string
	Paths    []string // empty: all
	Open     []string // paths that are open to everybody
	Asks     []string // requirements for callers, in the words of the Caddyfile
	Policies []string
	Rules    []Rule // of the site itself
	Trial    *Trial // nil: no rules are tried
}

// Trial is a set of rules that are tried and not enforced.
type Trial struct {
	Asks     []string
	Policies []string
	Rules    []Rule
}

// Difference is a request that shadow rules would decide differently from the enforced ones.
type Difference struct {
	At                           time.Time
	Site, Method, Path           string
	PersonID, Username, ClientID string
	Live, LiveRule               string
	Shadow, ShadowRule           string
}

// Rule lets requests in or refuses them.
type Rule struct {
	Kind  string // allow or deny
	Name  string
	Place string // empty: unknown
	// Asks are the requirements, in the words of the Caddyfile. Empty: everything
	Asks    []string
	Counted string // name under which its decisions are counted. Empty: they are not
}

// Question is a hypothetical request.
type Question struct {
	URL, Method, Address, Person, Client string
	At                                   string // RFC 3339. Empty: now
	Level                                int    // of the sign-in. 0: that of the strongest session
	Ref                                  string // in place of all this: the request of a refusal
}

// Explanation is the outcome of a request.
type Explanation struct {
	URL, Method string
	Verdict     string
	Gate        string // that decides for a site which another proxy serves
	Handler     string // that would serve it
	Caller      *Caller
	Steps       []Step
	// Status, Challenge and Message are those of the response, if the request is refused.
	Status             int
	Challenge, Message string
	Notes              []string
}

// decider returns the rule that decides, and its place.
func (e *Explanation) decider() (rule, place string) {
	for i := len(e.Steps) - 1; i >= 0; i-- {
		for _, l := range e.Steps[i].Rules {
			if l.Decides {
				return l.Rule, l.Place
			}
		}
	}
	return "", ""
}

// why returns the reason why the request is refused, or "".
func (e *Explanation) why() string {
	if len(e.Steps) == 0 {
		return ""
	}
	return e.Steps[len(e.Steps)-1].Why
}

// Caller is the known data about the sender of the request.
type Caller struct {
	PersonID, Username, ClientID string
	Groups, Scopes               []string
	Level                        int
	SignedIn                     time.Duration // ago. 0: not in a browser
	Provider                     string
}

// Step is one directive on the way of a request.
type Step struct {
	Place, Verdict, Why string
	WantedLevel         int
	Rules               []Line
	Headers             []Header // that go upstream
}

// Line says how one rule fits a request.
type Line struct {
	Kind, Rule, Place, Fit string
	Decides                bool
}

// Header is a header.
type Header struct{ Name, Value string }

// Tested is a case that was put to a policy.
type Tested struct {
	Caller, Method, URL string
	Want                string // verdict. Empty: nothing was wanted
	Got, Rule, Place    string
	OK                  bool
}

// Wrong is an error in the question.
type Wrong struct {
	Field  string // empty: not one alone
	Line   int    // of the field, from 1 on. 0: none
	Reason string
	Cause  error // with a code, where pages have words for it (package coded)
}

func (w *Wrong) Unwrap() error { return w.Cause }

func (w *Wrong) Error() string { return w.Reason }

// gateway has the screens.
type gateway struct {
	*layout.Frame
	Deps
}

// Screens returns the screens, in the order of the navigation.
func Screens(f *layout.Frame, d Deps) []*layout.Screen {
	g := &gateway{f, d}
	return []*layout.Screen{
		g.opensScreen(), g.sitesScreen(), g.siteScreen(), g.explainScreen(), g.policiesScreen(), g.policyScreen(),
		g.refusalsScreen(), g.refusalScreen(), g.requestsScreen(), g.requestScreen(),
	}
}

const (
	sitesPath    = "/sites"
	explainPath  = "/sites/explain"
	refusalsPath = "/refusals"
)

// SitePath is the page of a site.
func SitePath(id string) string { return layout.Root + sitesPath + "/" + url.PathEscape(id) }

// RefusalPath is the page that explains a refusal.
func RefusalPath(ref string) string { return layout.Root + refusalsPath + "/" + url.PathEscape(ref) }

func applicationPath(id string) string { return layout.Root + "/applications/" + url.PathEscape(id) }

// timeForm is the format for entering a time, in UTC.
const timeForm = "2006-01-02 15:04"

// parseTime reads a time as people write it, or as programs do.
func parseTime(s string) (time.Time, bool) {
	for _, form := range []string{time.RFC3339, timeForm, "2006-01-02T15:04"} {
		if at, err := time.Parse(form, s); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
