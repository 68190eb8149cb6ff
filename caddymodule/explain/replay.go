package explain

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
)

// Change is a request that other rules let in or refuse, unlike those that decided about it.
type Change struct {
	decisionlog.Decision
	Now  protect.Verdict `json:"now"` // what other rules say
	Rule string          `json:"rule,omitempty"`
}

// Differences are the decisions whose shadow rules would have let in what was refused, or the reverse.
func Differences(list []decisionlog.Decision) (out []Change) {
	for _, d := range list {
		if now := protect.Verdict(d.Shadow); now.Passes() != protect.Verdict(d.Live).Passes() {
			out = append(out, Change{d, now, d.ShadowRule})
		}
	}
	return out
}

// Replay puts the requests of decisions to the routes again, and returns those that change sides. profiles are the
// claims of the persons, by their ids. Requests for which there is no site any more are in unserved.
func (s *Routes) Replay(ctx context.Context, list []decisionlog.Decision, profiles map[string]map[string]string) (out []Change,
	unserved int, err error,
) {
	for _, d := range list {
		q := Request{URL: d.Site + (&url.URL{Path: d.Path}).EscapedPath(), Method: d.Method, IP: d.IP, Headers: http.Header{"Accept": {"*/*"}}}
		if d.Navigates {
			q.Headers.Set("Accept", "text/html")
		}
		a, err := s.Ask(ctx, q, callerIn(d, profiles[d.PersonID]))
		if wrong := new(BadRequest); errors.As(err, wrong) {
			unserved++
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if a.Verdict.Passes() != protect.Verdict(d.Live).Passes() {
			rule, _ := a.Decider()
			out = append(out, Change{d, a.Verdict, rule})
		}
	}
	return out, unserved, nil
}

// callerIn is the caller of a decision.
func callerIn(d decisionlog.Decision, profile map[string]string) protect.Caller {
	c := protect.Caller{Browser: d.Browser, Now: d.At}
	if d.PersonID == "" && d.ClientID == "" {
		return c
	}
	c.Who = &token.Introspection{
		Active: true, Subject: d.ClientID, ClientID: d.ClientID, Scope: d.Scopes, Audience: d.Audience, Level: d.Level,
		AuthTime: d.AuthTime, Provider: d.Provider,
		TokenType: token.TypeBearer,
	}
	if d.PersonID != "" {
		c.Who.Subject = d.PersonID
		c.Who.Person = &authn.Subject{
			ID: d.PersonID, Active: true, Username: d.Username, Groups: d.Groups,
			Partition: d.Partition, Profile: profile,
		}
	}
	return c
}
