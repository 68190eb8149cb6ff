package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ExplainRequest is the body that `caddy gatehouse explain` sends. Without person, client and token the caller is a
// stranger.
type ExplainRequest struct {
	URL     string      `json:"url,omitempty"`
	Method  string      `json:"method,omitempty"`
	IP      string      `json:"ip,omitempty"`
	Headers http.Header `json:"headers,omitempty"`
	Person  string      `json:"person,omitempty"` // username or id
	Client  string      `json:"client,omitempty"` // with an access token of its own, or of the person
	Scopes  []string    `json:"scopes,omitempty"` // of that token
	Token   string      `json:"token,omitempty"`  // an access token
	Level   int         `json:"level,omitempty"`  // of the sign-in. Default: that of the strongest session, or 1
	Age     string      `json:"age,omitempty"`    // of the sign-in. Default: that of the same session, or 0s
	At      string      `json:"at,omitempty"`     // RFC 3339. Default: now
	Gate    string      `json:"gate,omitempty"`   // a forward_auth or policy, for a site that another proxy serves. Default: that of the URL
	Ref     string      `json:"ref,omitempty"`    // of a refusal, whose request is asked again
}

// ExplainAnswer is the outcome of a request, and the refusal that the question was about.
type ExplainAnswer struct {
	*explain.Answer
	URL     string     `json:"url"`
	Method  string     `json:"method"`
	Refused *WhyAnswer `json:"refused,omitempty"`
}

func adminExplain(i *Instance, r *http.Request, in ExplainRequest) (any, error) {
	out, err := i.AnswerExplain(r, in)
	if err != nil {
		return nil, i.aboutPerson(r, in.Person, err)
	}
	return out, nil
}

// AnswerExplain tells what a request gets. For the status of an error see Refused.
func (i *Instance) AnswerExplain(r *http.Request, in ExplainRequest) (out ExplainAnswer, err error) {
	if in.Ref != "" {
		if err := i.again(r, &in, &out); err != nil {
			return out, err
		}
	}
	who, notes, err := i.CallerOf(r, &in)
	if err != nil {
		return out, err
	}
	who.Granted = i.grantedBy(who.Now)
	q := explain.Request{URL: in.URL, Method: in.Method, IP: in.IP, Headers: in.Headers, Gate: in.Gate}
	if out.Answer, err = i.Explain(r.Context(), q, who); err != nil {
		return out, i.aboutSite(q.URL, err)
	}
	if notes, err = i.grantNotes(r, notes, out.Answer); err != nil {
		return out, err
	}
	if out.URL, out.Method = q.URL, q.Method; out.Method == "" {
		out.Method = http.MethodGet
	}
	out.Notes = append(notes, out.Notes...)
	return out, nil
}

// grantedBy reports whether an operator has granted a person access to a site for a time. It counts no use.
func (i *Instance) grantedBy(now time.Time) func(ctx context.Context, personID, site string) (bool, error) {
	return func(ctx context.Context, personID, site string) (bool, error) {
		found, err := i.Access.Find(ctx, personID, site)
		if errors.Is(err, access.ErrNone) {
			return false, nil
		}
		return found.State == access.Granted && found.Ends.After(now), err
	}
}

// grantNotes adds what the grants are that have let a request pass.
func (i *Instance) grantNotes(r *http.Request, notes []string, a *explain.Answer) ([]string, error) {
	for _, step := range a.Steps {
		if step.Granted == "" || a.Caller == nil {
			continue
		}
		found, err := i.Access.Find(r.Context(), a.Caller.PersonID, step.Granted)
		if err != nil {
			return nil, err
		}
		note := fmt.Sprintf("%s has granted %s access to %s until %s", found.By, found.Username, found.Site,
			found.Ends.UTC().Format(time.RFC3339))
		if found.Uses > 0 {
			note += fmt.Sprintf(", %d of %d uses are left", found.Uses-found.Used, found.Uses)
		}
		notes = append(notes, note)
	}
	return notes, nil
}

// again takes the request of a refusal.
func (i *Instance) again(r *http.Request, in *ExplainRequest, out *ExplainAnswer) error {
	if in.URL != "" || in.Person != "" || in.Token != "" || in.Client != "" {
		return badRequestf("a reference stands for person and request: leave the other flags out")
	}
	ref, err := denial.ParseRef(in.Ref)
	if err != nil {
		return badRequestf("%w", err)
	}
	f, err := i.Refusals.Find(r.Context(), ref)
	if err != nil {
		return err
	}
	if f.Where != denial.Site {
		return badRequestf("the refusal %s was not by a site: caddy gatehouse why %s says what it was", ref, ref)
	}
	out.Refused = &WhyAnswer{Sentence: f.Sentence(), Fix: f.Reason.Fix(), Refusal: f}
	in.URL, in.Method, in.Person, in.Level = cmp.Or(f.Scheme, "https")+"://"+f.Site+f.Path, f.Method, f.PersonID, f.Level
	if in.Client, in.Scopes = f.ClientID, f.Scopes; in.Level > 0 && in.Age == "" {
		in.Age = "0s"
	}
	return nil
}

// CallerOf returns who would make the request. Programs ask about unknown persons without end, so its error suggests no
// others.
func (i *Instance) CallerOf(r *http.Request, in *ExplainRequest) (c protect.Caller, notes []string, err error) {
	c.Now = time.Now().UTC()
	if in.At != "" {
		if c.Now, err = time.Parse(time.RFC3339, in.At); err != nil {
			return c, nil, badRequestf("at: want a time such as 2026-11-22T18:30:00+01:00, not %q", in.At)
		}
	}
	switch {
	case in.Token != "" && (in.Person != "" || in.Client != ""):
		return c, nil, badRequestf("a token says whose it is: leave person and client out")
	case in.Level < 0 || in.Level > 4:
		return c, nil, badRequestf("level: want 1 to 4, not %d", in.Level)
	case in.Token != "":
		if c.Who, err = i.Authz.Introspect(r.Context(), in.Token); err == nil && !c.Who.Active {
			notes = append(notes, "the token is unknown, expired, revoked or used up")
		}
		return c, notes, err
	case in.Person == "" && in.Client == "":
		return c, nil, nil
	}
	c.Browser = in.Client == ""
	c.Who = &token.Introspection{Active: true, Subject: in.Client, ClientID: in.Client, Scope: in.Scopes, TokenType: token.TypeBearer}
	if in.Person == "" {
		return c, nil, nil
	}
	p, err := i.Identity.Person.Person(r.Context(), in.Person)
	if err != nil {
		return c, nil, err
	}
	subject, sessions := authn.Subject{}, []authn.Session(nil)
	err = i.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		if subject, err = i.Identity.Subjects().Get(tx, p.ID); err == nil {
			sessions, err = i.Identity.Subjects().Sessions(tx, p.ID, c.Now)
		}
		return err
	})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return c, nil, err
	}
	if err != nil || !subject.Active {
		c.Who = nil
		return c, []string{fmt.Sprintf("%s is %s and cannot be signed in: what follows is for a stranger", Typed(p), p.State)}, nil
	}
	w := c.Who
	w.Subject, w.Person, w.Level, w.AuthTime = subject.ID, &subject, in.Level, c.Now
	if len(sessions) > 0 {
		best := slices.MaxFunc(sessions, func(a, b authn.Session) int { return a.Level - b.Level })
		w.Provider, w.AMR, w.SessionID, w.AuthTime = best.Provider, best.AMR, best.SessionID, best.AuthTime
		if w.Level == 0 {
			w.Level = best.Level
		}
	} else {
		notes = append(notes, Typed(p)+" is not signed in anywhere: what follows is for a sign-in of this moment")
	}
	if in.Age != "" {
		age, err := time.ParseDuration(in.Age)
		if err != nil || age < 0 {
			return c, nil, badRequestf("age: want a duration such as 2h, not %q", in.Age)
		}
		w.AuthTime = c.Now.Add(-age)
	}
	if w.Level == 0 {
		w.Level = 1
	}
	return c, notes, nil
}
