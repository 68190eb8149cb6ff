package authz

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A POST from a client's site carries no SameSite cookie, so the browser is sent to come back by GET with it. What was
// posted stays here: it can be longer than an address, and an address ends up in histories and logs. Knowing the id is
// worth no more than the request itself, which anybody can send. (docs/decisions/authorization.md#posted-requests)

const (
	postedParam    = "posted"
	postedLifetime = 10 * time.Minute
)

// isPosted reports whether the browser comes back after a POST.
func isPosted(f oauth.Form) bool { return len(f.Values) == 1 && f.Has(postedParam) }

// keep stores what a stranger has posted, of this size, and redirects to where it is read again.
func (s *Server) keep(w http.ResponseWriter, r *http.Request, size int, store func(tx storage.Tx, id string) error) error {
	if !s.deps.Admit(r, size) {
		return oauth.TemporarilyUnavailable(errTooMany)
	}
	id, err := s.newID()
	if err != nil {
		return err
	}
	if err := s.update(r.Context(), func(tx storage.Tx) error { return store(tx, id) }); err != nil {
		return err
	}
	web.Redirect(w, r.URL.Path+"?"+url.Values{postedParam: {id}}.Encode())
	return nil
}

// keepPosted keeps an authorization request that has passed its checks.
func (s *Server) keepPosted(w http.ResponseWriter, r *http.Request, rec *requestRecord) error {
	return s.keep(w, r, posted.Size(*rec), func(tx storage.Tx, id string) error {
		return posted.Create(tx, id, *rec, rec.CreatedAt.Add(postedLifetime+token.CollectMargin))
	})
}

// resumePosted continues an authorization request that was posted.
func (s *Server) resumePosted(w http.ResponseWriter, r *http.Request, f oauth.Form) error {
	if err := s.clients.RefreshProviders(r.Context()); err != nil {
		return err
	}
	p := &pendingRequest{}
	rec, found, err := findPosted(r.Context(), s, posted, f.Get(postedParam))
	p.rec = rec
	switch {
	case err != nil:
		return err
	case !found || !rec.CreatedAt.Add(postedLifetime).After(s.now()):
		s.refuseRequest(w, r, nil, errExpired)
		return nil
	}
	if p.client, err = s.usableClient(r.Context(), &p.rec); err != nil {
		s.refuseRequest(w, r, p, err)
		return nil
	}
	return s.proceed(w, r, p)
}

// keepPostedLogout keeps a sign-out with a hint that is ours. The hint itself is not stored.
func (s *Server) keepPostedLogout(w http.ResponseWriter, r *http.Request, l *signOut) error {
	rec := postedLogoutRecord{
		ClientID: l.form.Get("client_id"), Target: l.form.Get("post_logout_redirect_uri"), State: l.form.Get("state"),
		HintSubject: l.hint.Subject, HintAudience: l.hint.Audience, CreatedAt: s.now(),
	}
	return s.keep(w, r, postedLogouts.Size(rec), func(tx storage.Tx, id string) error {
		return postedLogouts.Create(tx, id, rec, rec.CreatedAt.Add(postedLifetime+token.CollectMargin))
	})
}

// readPostedLogout makes a sign-out of what was posted. Of one that has expired nothing is left: the person is asked.
func (s *Server) readPostedLogout(ctx context.Context, id string) (*signOut, error) {
	l := &signOut{form: oauth.Form{Values: map[string][]string{}}}
	rec, found, err := findPosted(ctx, s, postedLogouts, id)
	if err != nil || !found || !rec.CreatedAt.Add(postedLifetime).After(s.now()) {
		return l, err
	}
	for name, value := range map[string]string{"client_id": rec.ClientID, "post_logout_redirect_uri": rec.Target, "state": rec.State} {
		if value != "" {
			l.form.Values[name] = []string{value}
		}
	}
	l.hint = token.HintClaims{Subject: rec.HintSubject, Audience: rec.HintAudience}
	return l, nil
}

func findPosted[T any](ctx context.Context, s *Server, table storage.Table[T], id string) (rec T, found bool, err error) {
	if len(id) > maxPathPart { // storage keys are bounded
		return rec, false, nil
	}
	err = s.view(ctx, func(tx storage.Tx) (err error) {
		rec, found, err = table.Find(tx, id)
		return err
	})
	return rec, found, err
}
