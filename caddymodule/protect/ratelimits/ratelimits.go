// Package ratelimits bounds how often callers come to a protected site: limits and quotas of the site, and plans of
// clients and groups. It reads them, finds those that concern a request, and counts. Package limit has the counters.
package ratelimits

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// Options are the limits of a site.
type Options struct {
	// How fast callers can go on. Default: as fast as they want.
	Limits []*Limit `json:"limits,omitempty"`
	// How often callers can come in a period, which is kept over restarts. Default: any number.
	Quotas []*Limit `json:"quotas,omitempty"`
	// Whether the plans of clients and groups hold here. Default: false.
	Plan bool `json:"plan,omitempty"`
}

// Limit is a number of requests in a period, for each caller of a kind.
type Limit struct {
	// The number and the period, such as 100/min. The units are s, min, h and d, and month for a quota. Required.
	Rate string `json:"rate"`
	// The callers that it counts: client, person, app_password, session, token, site, claim, or ip for a limit. A caller
	// who has no such thing is counted as a person or client. Required at a site. Default in a plan: the holder of the
	// plan.
	Per string `json:"per,omitempty"`
	// The claim, if per is claim. Default: none.
	Claim string `json:"claim,omitempty"`
	// How many can come at once. It is for limits. Default: as many as the rate has in its period.
	Burst caddyfileutil.Count `json:"burst,omitempty"`
	// The requests that are counted. It is for sites. Default: all.
	Match caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`
	// Where it stands in the Caddyfile, as file:line, for messages. Default: unknown.
	Place string `json:"place,omitempty"`
}

// The words of Per.
const (
	perClient      = "client"
	perPerson      = "person"
	perAppPassword = "app_password" //nolint:gosec // no secret
	perSession     = "session"
	perToken       = "token"
	perIP          = "ip"
	perSite        = "site"
	perClaim       = "claim"
	perHolder      = "" // of a plan
)

var words = []string{perClient, perPerson, perAppPassword, perSession, perToken, perIP, perSite, perClaim}

// kind is the use of a list of limits.
type kind struct {
	name        string
	quota, plan bool
}

var (
	limits     = kind{name: "limit"}
	quotas     = kind{name: "quota", quota: true}
	planLimits = kind{name: "limit", plan: true}
	planQuotas = kind{name: "quota", quota: true, plan: true}
)

// check refuses what can be told from the texts.
func (l *Limit) check(k kind) error {
	if err := k.checkPer(l.Per); err != nil {
		return err
	}
	switch {
	case (l.Per == perClaim) != (l.Claim != ""):
		return errors.New("per claim names a claim, as in: per claim department")
	case k.quota && l.Burst != "":
		return errors.New("burst is for limits: a quota counts all requests of its period alike")
	case k.plan && len(l.Match) > 0:
		return errors.New("match is for the limits of a site: a plan counts the requests of all sites that have it")
	}
	for _, text := range []string{l.Rate, string(l.Burst)} {
		if caddyfileutil.HasPlaceholder(text) {
			return nil // it is checked when it is resolved
		}
	}
	_, err := l.counter(k)
	return err
}

func (k kind) checkPer(per string) error {
	switch {
	case per == perHolder && !k.plan:
		return fmt.Errorf("say which callers it counts, such as per client: one of %s", strings.Join(words, ", "))
	case per == perHolder:
		return nil
	case !slices.Contains(words, per):
		if meant := spelling.Word(per, words); meant != "" {
			return fmt.Errorf("per: unrecognized %q, did you mean %s?", per, meant)
		}
		return fmt.Errorf("per: unrecognized %q, known are: %s", per, strings.Join(words, ", "))
	case per == perIP && k.quota:
		return errors.New("per ip is for limits: anyone could fill the storage with the quotas of addresses")
	case k.plan && (per == perIP || per == perSite):
		return fmt.Errorf("per %s is for the limits of a site: a plan counts its holders", per)
	}
	return nil
}

// counter returns what counts: a bucket, or for a quota its rate alone.
func (l *Limit) counter(k kind) (*limit.Bucket, error) {
	rate, err := limit.ParseRate(l.Rate)
	if err != nil {
		return nil, err
	}
	if k.quota {
		return &limit.Bucket{Rate: rate}, nil
	}
	burst := 0
	if l.Burst != "" {
		if burst, err = strconv.Atoi(string(l.Burst)); err != nil || burst < 1 {
			return nil, fmt.Errorf("burst: %q is not a whole number from 1", string(l.Burst))
		}
	}
	return limit.NewBucket(rate, int64(burst))
}

// Scope is the part of a configuration in which limits hold. The same scope, rate and words have the same counters in
// every configuration.
type Scope struct {
	Site  string // that names the protect of a site, but for other places in the same file
	Name  string // of the site, for operators: at wiki.example.com
	Plans *Plans // nil: there are none
}

// Set is the limits of a site, ready to count. A nil Set counts nothing.
type Set struct {
	before, after []*rule
	plans         *Plans // nil: the site has none
	parts         policy.Parts
}

// rule is one limit that counts.
type rule struct {
	kind
	id       uint64
	per      string
	claim    string
	bucket   *limit.Bucket
	matchers caddyhttp.MatcherSets
	text     string // for operators and clients: 100/min per client
	policy   string // a member of RateLimit-Policy
	label    string // a string of RFC 9651, with its quotation marks
	about    string // with the site, for operators
}

// Empty reports whether there is nothing to count.
func (o *Options) Empty() bool { return len(o.Limits)+len(o.Quotas) == 0 && !o.Plan }

// Provision prepares the limits of a site. A nil Set: it has none.
func (o *Options) Provision(ctx caddy.Context, res *caddyfileutil.Resolver, in Scope) (*Set, error) {
	if o.Empty() {
		return nil, nil //nolint:nilnil // documented
	}
	s := new(Set)
	if o.Plan {
		if s.plans = in.Plans; s.plans == nil {
			return nil, errors.New("plan: there are no plans: write one in the global block, as `plan free { limit 100/min }`")
		}
	}
	for _, list := range []struct {
		kind
		of []*Limit
	}{{limits, o.Limits}, {quotas, o.Quotas}} {
		for _, l := range list.of {
			r, err := l.provision(ctx, res, list.kind, in)
			if err != nil {
				return nil, caddyfileutil.AtPlace(l.Place, fmt.Errorf("%s: %w", list.name, err))
			}
			s.parts = s.parts.Or(policy.PartsOfAll(l.Match))
			if err := r.load(ctx, l); err != nil {
				return nil, caddyfileutil.AtPlace(l.Place, fmt.Errorf("%s: match: %w", list.name, err))
			}
			if r.per == perIP {
				s.before = append(s.before, r)
			} else {
				s.after = append(s.after, r)
			}
		}
	}
	if n := len(s.before) + len(s.after); n > most {
		return nil, fmt.Errorf("%d limits and quotas are more than %d", n, most)
	}
	nameRules(slices.Concat(s.before, s.after))
	return s, nil
}

// Parts are the parts of a request that decide which limits concern it.
func (s *Set) Parts() policy.Parts {
	if s == nil {
		return policy.Parts{}
	}
	return s.parts
}

func (l *Limit) provision(_ caddy.Context, res *caddyfileutil.Resolver, k kind, in Scope) (*rule, error) {
	l.Rate = res.Plain(k.name, l.Rate, nil)
	l.Burst = caddyfileutil.Count(res.Plain(k.name+": burst", string(l.Burst), nil))
	if err := res.Err(); err != nil {
		return nil, err
	}
	if err := l.check(k); err != nil {
		return nil, err
	}
	bucket, err := l.counter(k)
	if err != nil {
		return nil, err
	}
	match, err := json.Marshal(l.Match)
	if err != nil {
		return nil, err
	}
	r := &rule{kind: k, per: l.Per, claim: l.Claim, bucket: bucket}
	r.text = bucket.Rate.String()
	if r.per != perHolder {
		r.text += " per " + strings.TrimSpace(r.per+" "+r.claim)
	}
	r.about = strings.TrimSpace(r.text + " " + in.Name)
	bucket.About = r.about
	counted := bucket.Rate.String()
	if k.quota {
		counted = bucket.Rate.Per.String() // one that is raised goes on
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %q %q %s", k.name, in.Site, counted, l.Per, l.Claim, match) //nolint:errcheck // it has none
	r.id = h.Sum64()
	return r, nil
}

func (r *rule) load(ctx caddy.Context, l *Limit) error {
	for _, set := range l.Match {
		if err := policy.CheckMatch(set); err != nil {
			return err
		}
	}
	if len(l.Match) == 0 {
		return nil
	}
	found, err := ctx.LoadModule(l, "Match")
	if err != nil {
		return err
	}
	return r.matchers.FromInterface(found)
}

// nameRules gives each rule the name under which the fields of answers list it.
func nameRules(rules []*rule) {
	for i, r := range rules {
		base := strings.Map(func(c rune) rune {
			if c < ' ' || c > '~' || c == '"' || c == '\\' {
				return '-'
			}
			return c
		}, strings.TrimSpace(strings.ReplaceAll(cmp.Or(r.per, "plan"), "_", "-")+" "+r.claim)+" "+r.bucket.Rate.Per.String())
		r.label = `"` + base + `"`
		for n := 2; slices.ContainsFunc(rules[:i], func(o *rule) bool { return o.label == r.label }); n++ {
			r.label = `"` + base + " " + strconv.Itoa(n) + `"`
		}
		r.policy = r.label + ";q=" + strconv.FormatInt(r.bucket.Rate.Count, 10)
		if w := r.window(); w > 0 {
			r.policy += ";w=" + strconv.FormatInt(w, 10)
		}
	}
}

// window is the length of the period in seconds. 0: it is a number of months, which have different lengths.
func (r *rule) window() int64 { return int64(r.bucket.Rate.Per.Length.Seconds()) }
