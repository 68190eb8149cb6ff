package actiontoken

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
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
	TicketPath = "/sign-in/token"
)

func ticketURL(ticket string) string {
	return TicketPath + "?" + url.Values{TicketParam: {ticket}}.Encode()
}

// showTicket serves GET /sign-in/token?ticket=… and, for a link that a person has made, ?token=…: it puts either into a cookie, so that no later request
// carries it in its address, and asks. Whoever only looks at the link, such as a scanner of mails, uses nothing up.
func (s *Service) showTicket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if ticket, token := q.Get(TicketParam), q.Get(proof.LinkParam); ticket != "" || token != "" {
		s.keepTicket(w, r, ticket, token)
		return
	}
	t, cur, ok := s.openTicket(w, r)
	if !ok {
		return
	}
	browser, err := s.jar.Browser(w, r, s.front.NewID)
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	data := page.Token{Action: TicketPath, CSRF: s.pages.CSRF(browser, ticketForm(t)), Account: t.person.Username, Detail: t.person.Name, Made: t.from != nil}
	if cur != nil && cur.Session.PersonID != t.rec.PersonID {
		data.Other, data.Cancel = cur.Person.Username, person.DefaultReturn
	}
	s.pages.Render(w, r, page.View{Template: "token", Client: login.Client{Targets: front.TargetsOf(t.to)}, Data: data})
}

// keepTicket sends the browser on without what signs somebody in.
func (s *Service) keepTicket(w http.ResponseWriter, r *http.Request, ticket, token string) {
	kind, value, life := secret.SignInTicket, ticket, ticketLife
	if ticket == "" {
		kind, value, life = secret.ActionToken, token, proof.LinkCookie
	}
	if !secret.IsToken(kind, value) {
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return
	}
	s.jar.Set(w, kindTicket, value, life)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Location", TicketPath)
	w.WriteHeader(http.StatusSeeOther)
}

// openTicket returns the ticket of the browser and who is signed in there, if anybody. Otherwise it has written the answer and is not ok: a person who opens
// their own link where they are signed in goes on as they are, and uses nothing up.
func (s *Service) openTicket(w http.ResponseWriter, r *http.Request) (t *ticketUse, cur *session.Current, ok bool) {
	t, err := s.ticket(r)
	if err == nil {
		cur, err = s.session.Read(r)
	}
	switch {
	case err != nil:
		s.failTicket(w, r, err)
	case t.from != nil && cur != nil && cur.Session.PersonID == t.rec.PersonID:
		s.jar.Clear(w, kindTicket)
		s.front.LeaveTo(w, r, t.to)
	default:
		return t, cur, true
	}
	return nil, nil, false
}

// ticketUse is a ticket with whom it signs in and where they go then.
type ticketUse struct {
	hash   string
	rec    ticketRecord
	person person.Record
	to     string
	from   *session.Record // in which the person has made it on a page. nil: somebody else has made it
	token  string          // id of the action token that it is. Empty: a token was processed for it
}

// ticketForm binds the form to the ticket that it shows.
func ticketForm(t *ticketUse) string { return "ticket:" + t.hash }

// ticket returns the ticket of the browser, or storage.ErrNotFound when there is none that is good.
func (s *Service) ticket(r *http.Request) (t *ticketUse, err error) {
	ticket := s.jar.Get(r, kindTicket)
	if !secret.IsToken(secret.SignInTicket, ticket) && !secret.IsToken(secret.ActionToken, ticket) {
		return nil, storage.ErrNotFound
	}
	now := s.now()
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		t, err = s.findTicket(tx, secret.Hash(ticket), now)
		return err
	})
	return t, err
}

func (s *Service) findTicket(tx storage.Tx, hash string, now time.Time) (*ticketUse, error) {
	t := &ticketUse{hash: hash}
	u, err := s.units(tx)
	if err != nil {
		return nil, err
	}
	if t.rec, err = signInTickets.Get(tx, hash); errors.Is(err, storage.ErrNotFound) {
		t.rec, t.token, err = ownLink(tx, hash, &u.Features.ActionToken)
	}
	if err != nil {
		return nil, err
	}
	if t.person, err = person.Records.Get(tx, t.rec.PersonID); err != nil {
		return nil, err
	}
	if !t.rec.ExpiresAt.After(now) || t.person.State != person.Active || t.person.Epoch != t.rec.Epoch {
		return nil, storage.ErrNotFound
	}
	if !u.Features.LoginEnabled {
		return nil, session.ErrClosed
	}
	t.from, err = s.maker(tx, t.rec.Session, t.rec.PersonID, t.person.Epoch, now)
	if errors.Is(err, ErrNoActionToken) || err == nil && t.from != nil && !ownLinks(&u.Features) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if t.to = front.Landing(u, ""); t.rec.RedirectURI != "" && config.Whitelisted(u.Features.ActionToken.WhitelistedURLs, t.rec.RedirectURI) {
		t.to = t.rec.RedirectURI
	}
	return t, nil
}

// ownLink returns an action token that a person has made on a page, as a ticket, and its id. There is no such token: storage.ErrNotFound. Whether it is good
// is the caller's to say.
func ownLink(tx storage.Tx, hash string, f *config.ActionToken) (rec ticketRecord, id string, err error) {
	t, err := Records.Get(tx, hash)
	if err == nil && t.Session == "" { // those of API clients are processed by them
		err = storage.ErrNotFound
	}
	return ticketRecord{PersonID: t.PersonID, Epoch: t.Epoch, Level: t.level(f), RedirectURI: t.RedirectURI, ExpiresAt: t.ExpiresAt, Session: t.Session}, t.ID, err
}

// spend uses it up.
func (t *ticketUse) spend(tx storage.Tx) error {
	if t.token == "" {
		return signInTickets.Delete(tx, t.hash)
	}
	_, err := Revoke(tx, storage.Key(t.rec.PersonID, t.token), t.rec.ExpiresAt)
	return err
}

// ticketSession is the sign-in that a ticket opens.
func (s *Service) ticketSession(t *ticketUse, now time.Time) session.Record {
	if t.from != nil {
		return s.heir(t.from, t.rec.Level, now)
	}
	return session.Record{
		PersonID: t.rec.PersonID, Epoch: t.person.Epoch, AuthTime: now, Seen: now, Level: t.rec.Level, AMR: []string{session.Word}, Provider: session.LocalProvider,
	}
}

// failTicket writes the page for a ticket that signs nobody in.
func (s *Service) failTicket(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, storage.ErrNotFound) {
		s.jar.Clear(w, kindTicket)
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return
	}
	s.front.Fail(w, r, err, TicketPath)
}

// handleTicket serves POST /sign-in/token: the person goes on, signed in at the level of the ticket, which is used up.
func (s *Service) handleTicket(w http.ResponseWriter, r *http.Request) {
	t, _, ok := s.openTicket(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), ticketForm(t)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, TicketPath)
		return
	}
	token, to, err := s.redeem(r, t.hash)
	if err != nil {
		s.failTicket(w, r, err)
		return
	}
	s.jar.Clear(w, kindTicket)
	s.jar.Set(w, session.CookieSession, token, 0)
	s.pages.Choose(w, r, t.person.Locale)
	s.front.EnterElsewhere(w, r, to)
}

// redeem uses a ticket up and opens the session. It returns the session's cookie and where the person goes.
func (s *Service) redeem(r *http.Request, hash string) (token, to string, err error) {
	if token, err = secret.NewToken(s.random, secret.Session); err != nil {
		return "", "", err
	}
	id, err := secret.ID(s.random, 16)
	if err != nil {
		return "", "", err
	}
	ev, err := s.person.NewEvents(s.origin(r), front.LoginSucceeded, front.SignedOut, actionTokenUsed)
	if err != nil {
		return "", "", err
	}
	now, old := s.now(), proof.Hashed(s.jar.Get(r, session.CookieSession))
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		t, err := s.findTicket(tx, hash, now)
		if err != nil {
			return err
		}
		if err := t.spend(tx); err != nil {
			return err
		}
		to = t.to
		rec := s.ticketSession(t, now)
		rec.From(s.origin(r))
		if rec.Again, err = session.MarkSignedIn(tx, rec.PersonID, now); err != nil {
			return err
		}
		sid, ended, err := s.session.Begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		if ended != nil {
			if err := s.events.Append(tx, ended.OwnEvent(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		in := &session.Current{ID: sid, Session: rec, Person: t.person}
		if t.token != "" {
			if err := s.events.Append(tx, in.OwnEvent(ev[2], ActionLogin)); err != nil {
				return err
			}
		}
		return s.events.Append(tx, in.OwnEvent(ev[0], "by action token"))
	})
	return token, to, err
}
