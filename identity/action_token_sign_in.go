package identity

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// TicketParam is the query parameter with the ticket of a sign-in by action token: it signs somebody in.
	TicketParam = "ticket"

	kindTicket = "ticket" // cookie that keeps the ticket while the page asks
	ticketLife = 2 * time.Minute
	ticketPath = "/sign-in/token"
)

func ticketURL(ticket string) string {
	return ticketPath + "?" + url.Values{TicketParam: {ticket}}.Encode()
}

// showTicket serves GET /sign-in/token?ticket=… and, for a link that a person has made, ?token=…: it puts either into a cookie, so that no later request
// carries it in its address, and asks. Whoever only looks at the link, such as a scanner of mails, uses nothing up.
func (s *Service) showTicket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if ticket, token := q.Get(TicketParam), q.Get(linkParam); ticket != "" || token != "" {
		s.keepTicket(w, r, ticket, token)
		return
	}
	t, cur, ok := s.openTicket(w, r)
	if !ok {
		return
	}
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	data := page.Token{Action: ticketPath, CSRF: s.Pages.CSRF(browser, ticketForm(t)), Account: t.person.Username, Detail: t.person.Name, Made: t.from != nil}
	if cur != nil && cur.session.PersonID != t.rec.PersonID {
		data.Other, data.Cancel = cur.person.Username, defaultReturn
	}
	s.Pages.Render(w, r, page.View{Template: "token", Client: login.Client{Targets: targetsOf(t.to)}, Data: data})
}

// keepTicket sends the browser on without what signs somebody in.
func (s *Service) keepTicket(w http.ResponseWriter, r *http.Request, ticket, token string) {
	kind, value, life := secret.SignInTicket, ticket, ticketLife
	if ticket == "" {
		kind, value, life = secret.ActionToken, token, linkCookie
	}
	if !secret.IsToken(kind, value) {
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return
	}
	s.jar.Set(w, kindTicket, value, life)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Location", ticketPath)
	w.WriteHeader(http.StatusSeeOther)
}

// openTicket returns the ticket of the browser and who is signed in there, if anybody. Otherwise it has written the answer and is not ok: a person who opens
// their own link where they are signed in goes on as they are, and uses nothing up.
func (s *Service) openTicket(w http.ResponseWriter, r *http.Request) (t *readTicket, cur *signedIn, ok bool) {
	t, err := s.ticket(r)
	if err == nil {
		cur, err = s.current(r)
	}
	switch {
	case err != nil:
		s.failTicket(w, r, err)
	case t.from != nil && cur != nil && cur.session.PersonID == t.rec.PersonID:
		s.jar.Clear(w, kindTicket)
		s.sendOn(w, r, t.to)
	default:
		return t, cur, true
	}
	return nil, nil, false
}

// readTicket is a ticket with whom it signs in and where they go then.
type readTicket struct {
	hash   string
	rec    ticketRecord
	person personRecord
	to     string
	from   *sessionRecord // in which the person has made it on a page. nil: somebody else has made it
	token  string         // id of the action token that it is. Empty: a token was processed for it
}

// ticketForm binds the form to the ticket that it shows.
func ticketForm(t *readTicket) string { return "ticket:" + t.hash }

// ticket returns the ticket of the browser, or storage.ErrNotFound when there is none that is good.
func (s *Service) ticket(r *http.Request) (t *readTicket, err error) {
	ticket := s.jar.Get(r, kindTicket)
	if !secret.IsToken(secret.SignInTicket, ticket) && !secret.IsToken(secret.ActionToken, ticket) {
		return nil, storage.ErrNotFound
	}
	now := s.Now()
	err = s.Store.View(r.Context(), func(tx storage.Tx) error {
		t, err = s.findTicket(tx, secret.Hash(ticket), now)
		return err
	})
	return t, err
}

func (s *Service) findTicket(tx storage.Tx, hash string, now time.Time) (*readTicket, error) {
	t := &readTicket{hash: hash}
	u, err := s.Units(tx)
	if err != nil {
		return nil, err
	}
	if t.rec, err = signInTickets.Get(tx, hash); errors.Is(err, storage.ErrNotFound) {
		t.rec, t.token, err = ownLink(tx, hash, &u.Features.ActionToken)
	}
	if err != nil {
		return nil, err
	}
	if t.person, err = persons.Get(tx, t.rec.PersonID); err != nil {
		return nil, err
	}
	if !t.rec.ExpiresAt.After(now) || t.person.State != Active || t.person.Epoch != t.rec.Epoch {
		return nil, storage.ErrNotFound
	}
	if !u.Features.LoginEnabled {
		return nil, errClosed
	}
	t.from, err = s.maker(tx, t.rec.Session, t.rec.PersonID, t.person.Epoch, now)
	if errors.Is(err, ErrNoActionToken) || err == nil && t.from != nil && !ownLinks(&u.Features) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if t.to = landing(u, ""); t.rec.RedirectURI != "" && config.Whitelisted(u.Features.ActionToken.WhitelistedURLs, t.rec.RedirectURI) {
		t.to = t.rec.RedirectURI
	}
	return t, nil
}

// ownLink returns an action token that a person has made on a page, as a ticket, and its id. There is no such token: storage.ErrNotFound. Whether it is good
// is the caller's to say.
func ownLink(tx storage.Tx, hash string, f *config.ActionToken) (rec ticketRecord, id string, err error) {
	t, err := actionTokens.Get(tx, hash)
	if err == nil && t.Session == "" { // those of API clients are processed by them
		err = storage.ErrNotFound
	}
	return ticketRecord{PersonID: t.PersonID, Epoch: t.Epoch, Level: t.level(f), RedirectURI: t.RedirectURI, ExpiresAt: t.ExpiresAt, Session: t.Session}, t.ID, err
}

// spend uses it up.
func (t *readTicket) spend(tx storage.Tx) error {
	if t.token == "" {
		return signInTickets.Delete(tx, t.hash)
	}
	_, err := revokeActionToken(tx, storage.Key(t.rec.PersonID, t.token), t.rec.ExpiresAt)
	return err
}

// ticketSession is the sign-in that a ticket opens.
func (s *Service) ticketSession(t *readTicket, now time.Time) sessionRecord {
	if t.from != nil {
		return s.heir(t.from, t.rec.Level, now)
	}
	return sessionRecord{
		PersonID: t.rec.PersonID, Epoch: t.person.Epoch, AuthTime: now, Seen: now, Level: t.rec.Level, AMR: []string{stepUpWord}, Provider: provider,
	}
}

// failTicket writes the page for a ticket that signs nobody in.
func (s *Service) failTicket(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, storage.ErrNotFound) {
		s.jar.Clear(w, kindTicket)
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return
	}
	s.fail(w, r, err, ticketPath)
}

// handleTicket serves POST /sign-in/token: the person goes on, signed in at the level of the ticket, which is used up.
func (s *Service) handleTicket(w http.ResponseWriter, r *http.Request) {
	t, _, ok := s.openTicket(w, r)
	if !ok {
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), ticketForm(t)); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, ticketPath)
		return
	}
	token, to, err := s.redeem(r, t.hash)
	if err != nil {
		s.failTicket(w, r, err)
		return
	}
	s.jar.Clear(w, kindTicket)
	s.jar.Set(w, kindSession, token, 0)
	s.Pages.Choose(w, r, t.person.Locale)
	s.goInElsewhere(w, r, to)
}

// redeem uses a ticket up and opens the session. It returns the session's cookie and where the person goes.
func (s *Service) redeem(r *http.Request, hash string) (token, to string, err error) {
	if token, err = secret.NewToken(s.Random, secret.Session); err != nil {
		return "", "", err
	}
	id, err := secret.ID(s.Random, 16)
	if err != nil {
		return "", "", err
	}
	ev, err := s.newEvents(s.Origin(r), loginSucceeded, signedOut, actionTokenUsed)
	if err != nil {
		return "", "", err
	}
	now, old := s.Now(), hashed(s.jar.Get(r, kindSession))
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		t, err := s.findTicket(tx, hash, now)
		if err != nil {
			return err
		}
		if err := t.spend(tx); err != nil {
			return err
		}
		to = t.to
		rec := s.ticketSession(t, now)
		rec.from(s.Origin(r))
		if rec.Again, err = signsIn(tx, rec.PersonID, now); err != nil {
			return err
		}
		sid, ended, err := s.begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		if ended != nil {
			if err := s.Events.Append(tx, ended.own(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		in := &signedIn{id: sid, session: rec, person: t.person}
		if t.token != "" {
			if err := s.Events.Append(tx, in.own(ev[2], ActionLogin)); err != nil {
				return err
			}
		}
		return s.Events.Append(tx, in.own(ev[0], "by action token"))
	})
	return token, to, err
}
