package denial

import (
	"context"
	"net/http"

	"go.uber.org/zap"
)

// A slip is the room that a request has for its one refusal: the reference that the answer shows, and what is known of
// the request before anybody knows whether it will be refused. It is used by the goroutine of the request alone.
type slip struct {
	about    Refusal // without a reference until someone asks for it
	from     string  // address of the client
	told     bool
	recorder *Recorder
	answer   http.Header
}

// Header has the reference of a refusal in its answer. (docs/decisions/operation.md#refusals)
const Header = "Gatehouse-Ref"

// Tell names a refusal in its answer.
func Tell(answer http.Header, ref string) {
	if ref != "" {
		answer.Set(Header, ref)
	}
}

// ref returns the reference. Nearly no request needs one.
func (s *slip) ref() string {
	if s.about.Ref == "" {
		s.about.Ref = s.recorder.Ref()
	}
	return s.about.Ref
}

type slipKey struct{}

// Begin returns the request with a slip, unless it has one. about is what is known already; method, host and path are
// added. The answer of a refused request names the reference in its Header.
func (r *Recorder) Begin(w http.ResponseWriter, req *http.Request, from string, about Refusal) *http.Request {
	if slipOf(req.Context()) != nil {
		return req
	}
	about.Method, about.Site, about.Path = req.Method, req.Host, req.URL.Path
	return req.WithContext(context.WithValue(req.Context(), slipKey{}, &slip{about: about, from: from, recorder: r, answer: w.Header()}))
}

func slipOf(ctx context.Context) *slip {
	s, _ := ctx.Value(slipKey{}).(*slip)
	return s
}

// Learn adds to what is known of a request.
func Learn(ctx context.Context, add func(*Refusal)) {
	if s := slipOf(ctx); s != nil {
		add(&s.about)
	}
}

// RefOf returns the reference that a refusal of this request has, for its event. Empty: there is no slip.
func RefOf(ctx context.Context) string {
	if s := slipOf(ctx); s != nil {
		return s.ref()
	}
	return ""
}

// Told returns the reference of the refusal of this request, for its answer. Empty: it is not refused, or has no slip.
func Told(ctx context.Context) string {
	if s := slipOf(ctx); s != nil && s.told {
		return s.ref()
	}
	return ""
}

// fill completes a refusal by the slip of its request. first is false if the request is refused already: what comes
// later is a consequence.
func (f *Refusal) fill(ctx context.Context) (from string, first bool) {
	s := slipOf(ctx)
	if s == nil {
		return "", true
	}
	first, s.told = !s.told, true
	Tell(s.answer, s.ref())
	if f.PersonID == "" {
		f.PersonID, f.Username = s.about.PersonID, s.about.Username
	}
	for _, e := range []struct {
		to   *string
		from string
	}{
		{&f.Ref, s.ref()},
		{&f.Where, s.about.Where},
		{&f.Site, s.about.Site},
		{&f.Method, s.about.Method},
		{&f.Path, s.about.Path},
		{&f.ClientID, s.about.ClientID},
		{&f.Provider, s.about.Provider},
		{&f.RedirectHost, s.about.RedirectHost},
		{&f.RedirectURI, s.about.RedirectURI},
	} {
		if *e.to == "" {
			*e.to = e.from
		}
	}
	if f.WantedScopes == nil {
		f.WantedScopes = s.about.WantedScopes
	}
	if f.Registered == nil {
		f.Registered = s.about.Registered
	}
	return s.from, first
}

// Entry is a sign-in or step-up that succeeded.
type Entry struct {
	PersonID, Username, ClientID string
	// By is the method, Provider the identity provider.
	By, Provider string
	Level        int
	StepUp       bool // of a session that was there before
}

// Entered counts a success and writes its log line.
func (r *Recorder) Entered(ctx context.Context, log *zap.Logger, e Entry) {
	if r != nil && r.counter != nil {
		r.counter.CountEntry(e)
	}
	text := "signed in"
	if e.StepUp {
		text = "sign-in raised"
	}
	if c := log.Check(zap.InfoLevel, text); c != nil {
		fields := []zap.Field{
			zap.String("person_id", e.PersonID), zap.String("by", e.By), zap.String("provider", e.Provider),
			zap.Int("level", e.Level),
		}
		for _, f := range []struct{ key, value string }{{"username", clean(e.Username)}, {"client_id", clean(e.ClientID)}} {
			if f.value != "" {
				fields = append(fields, zap.String(f.key, f.value))
			}
		}
		if s := slipOf(ctx); s != nil && s.from != "" {
			fields = append(fields, zap.String("client_ip", s.from))
		}
		c.Write(fields...)
	}
}
