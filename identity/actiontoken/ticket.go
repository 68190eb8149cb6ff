package actiontoken

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// TicketPath is the page of sign-ins by an action token.
	TicketPath = "/sign-in/token"
	// TicketParam is its query parameter with a ticket, which signs someone in.
	TicketParam = "ticket"

	kindTicket = "ticket" // cookie with the ticket or token while the page asks
	ticketLife = 2 * time.Minute
)

func ticketURL(ticket string) string {
	return TicketPath + "?" + url.Values{TicketParam: {ticket}}.Encode()
}

// showTicket serves GET /sign-in/token?ticket=… and, for a link that a person has made, ?token=…: it moves either into
// a cookie, so no later URL contains it, and asks. Opening the link uses nothing up, so mail scanners do no harm.
func (s *Service) showTicket(q *webflow.Request) error {
	v := q.URL.Query()
	if ticket, token := v.Get(TicketParam), v.Get(challenge.LinkParam); ticket != "" || token != "" {
		return s.keepTicket(q, ticket, token)
	}
	t, err := s.openTicket(q)
	if err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, t.form())
	if err != nil {
		return err
	}
	data := web.Token{Action: TicketPath, CSRF: csrf, Account: t.person.Username, Detail: t.person.Name, Made: t.maker != nil}
	if q.SignIn != nil && q.SignIn.Session.PersonID != t.rec.PersonID {
		data.Other, data.Cancel = q.SignIn.Person.Username, person.DefaultReturn
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "token", Client: authn.Client{Targets: webflow.TargetsOf(t.to)}, Data: data})
	return nil
}

// expired is the answer to a ticket or token that is invalid.
func expired() error {
	return &webflow.Answer{Status: http.StatusBadRequest, Key: "error.expired", Again: person.DefaultReturn}
}

// keepTicket redirects the browser to the page without the ticket or token in its URL.
func (s *Service) keepTicket(q *webflow.Request, ticket, token string) error {
	kind, value, life := secret.SignInTicket, ticket, ticketLife
	if ticket == "" {
		kind, value, life = secret.ActionToken, token, challenge.LinkCookie
	}
	if !secret.IsToken(kind, value) {
		return expired()
	}
	s.deps.Jar.Set(q.W, kindTicket, value, life)
	return q.Redirect(TicketPath)
}

// openTicket returns the ticket of the browser. A person who opens their own link where they are signed in keeps that
// sign-in: they are redirected, the link stays unused, and the error is webflow.ErrAnswered.
func (s *Service) openTicket(q *webflow.Request) (*ticket, error) {
	value := s.deps.Jar.Get(q.Request, kindTicket)
	if !secret.IsToken(secret.SignInTicket, value) && !secret.IsToken(secret.ActionToken, value) {
		return nil, s.ticketError(q, storage.ErrNotFound)
	}
	var t *ticket
	now := s.deps.Now()
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		t, err = s.findTicket(tx, q.Settings, secret.Hash(value), now)
		return err
	})
	if err != nil {
		return nil, s.ticketError(q, err)
	}
	if t.maker != nil && q.SignIn != nil && q.SignIn.Session.PersonID == t.rec.PersonID {
		s.deps.Jar.Clear(q.W, kindTicket)
		return nil, cmp.Or(q.LeaveTo(t.to), webflow.ErrAnswered)
	}
	return t, nil
}

// ticketError is the answer if the ticket of the browser is invalid; any other error is returned as it is.
func (s *Service) ticketError(q *webflow.Request, err error) error {
	q.Again = TicketPath
	if errors.Is(err, storage.ErrNotFound) {
		s.deps.Jar.Clear(q.W, kindTicket)
		return expired()
	}
	return err
}

// ticket is a valid ticket.
type ticket struct {
	hash   string
	rec    ticketRecord
	person person.Record
	to     string          // where the person goes then
	maker  *session.Record // in which the person has made it on a page. nil: an API client has made it
	token  string          // id of the action token that serves as the ticket. Empty: a processed token has left the ticket
}

// form binds the form to the ticket that it shows.
func (t *ticket) form() string { return "ticket:" + t.hash }

// findTicket returns a valid ticket, or storage.ErrNotFound.
func (s *Service) findTicket(tx storage.Tx, u *settings.Units, hash string, now time.Time) (*ticket, error) {
	t := &ticket{hash: hash}
	var ok bool
	var err error
	if t.rec, ok, err = signInTickets.Find(tx, hash); err == nil && !ok {
		t.rec, t.token, err = readOwnLink(tx, hash, &u.Features.ActionToken)
	}
	if err != nil {
		return nil, err
	}
	if t.person, err = person.Records.Get(tx, t.rec.PersonID); err != nil {
		return nil, err
	}
	global, err := session.GlobalEpoch(tx)
	if err != nil {
		return nil, err
	}
	if !t.rec.ExpiresAt.After(now) || t.person.State != person.Active || t.person.Epoch != t.rec.Epoch || t.rec.Global != global {
		return nil, storage.ErrNotFound
	}
	if t.rec.Session == "" && !t.rec.Roles && s.deps.Person.HasRole(&t.person) {
		return nil, storage.ErrNotFound
	}
	if !u.Features.LoginEnabled {
		return nil, session.ErrClosed
	}
	t.maker, err = s.readMaker(tx, t.rec.Session, t.rec.PersonID, t.person.Epoch, now)
	if errors.Is(err, ErrNoToken) || err == nil && t.maker != nil && !offersLinks(&u.Features) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if t.to = webflow.Landing(u, ""); t.rec.RedirectURI != "" &&
		settings.Whitelisted(u.Features.ActionToken.WhitelistedURLs, t.rec.RedirectURI) {
		t.to = t.rec.RedirectURI
	}
	return t, nil
}

// readOwnLink returns an action token that a person has made on a page, as a ticket, and its id, or
// storage.ErrNotFound. The caller checks whether it is valid.
func readOwnLink(tx storage.Tx, hash string, f *settings.ActionToken) (rec ticketRecord, id string, err error) {
	t, err := tokens.Get(tx, hash)
	if err == nil && t.Session == "" { // an API client has to process it
		err = storage.ErrNotFound
	}
	return ticketRecord{
		PersonID: t.PersonID, Epoch: t.Epoch, Level: t.level(f), RedirectURI: t.RedirectURI, ExpiresAt: t.ExpiresAt, Session: t.Session,
		Global: t.Global,
	}, t.ID, err
}

// spend uses the ticket up.
func (t *ticket) spend(tx storage.Tx) error {
	if t.token == "" {
		return signInTickets.Delete(tx, t.hash)
	}
	_, err := RevokeIn(tx, storage.Key(t.rec.PersonID, t.token), t.rec.ExpiresAt)
	return err
}

// newSession is the session that the ticket opens.
func (s *Service) newSession(t *ticket, now time.Time) session.Record {
	if t.maker != nil {
		return s.deps.Session.Inherit(t.maker, t.rec.Level, now)
	}
	return session.Record{
		PersonID: t.rec.PersonID, Epoch: t.person.Epoch, AuthTime: now, Seen: now, Level: t.rec.Level, AMR: []string{session.AMRCustom},
		Provider: session.LocalProvider, Vouched: !t.rec.Roles,
	}
}

// handleTicket serves POST /sign-in/token: the ticket is used up and signs the person in at its level.
func (s *Service) handleTicket(q *webflow.Request) error {
	t, err := s.openTicket(q)
	if err != nil {
		return err
	}
	if err := s.deps.Front.CheckForm(q, t.form(), TicketPath); err != nil {
		return err
	}
	token, to, err := s.redeem(q, t.hash)
	if err != nil {
		return s.ticketError(q, err)
	}
	s.deps.Front.Entered(q.Context(), denial.Entry{
		PersonID: t.rec.PersonID, Username: t.person.Username, By: "link",
		Provider: session.LocalProvider, Level: t.rec.Level,
	})
	s.deps.Jar.Clear(q.W, kindTicket)
	s.deps.Session.SetNewCookie(q.W, token)
	s.deps.Pages.Choose(q.W, q.Request, t.person.Locale)
	return s.deps.Front.FinishElsewhere(q, to)
}

// redeem uses a ticket up and opens the session. It returns the session's cookie and where the person goes.
func (s *Service) redeem(q *webflow.Request, hash string) (token, to string, err error) {
	if token, err = secret.NewToken(s.deps.Random, secret.Session); err != nil {
		return "", "", err
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return "", "", err
	}
	from := s.deps.Origin(q.Request)
	ev, err := s.deps.Person.NewEvents(from, webflow.LoginSucceeded, webflow.SignedOut, webflow.SignedOut, actionTokenUsed)
	if err != nil {
		return "", "", err
	}
	now, old := s.deps.Now(), challenge.Hashed(s.deps.Jar.Get(q.Request, session.CookieSession))
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		t, err := s.findTicket(tx, u, hash, now)
		if err != nil {
			return err
		}
		if err := t.spend(tx); err != nil {
			return err
		}
		to = t.to
		rec := s.newSession(t, now)
		rec.From(from)
		if rec.Again, err = session.MarkSignedIn(tx, rec.PersonID, now); err != nil {
			return err
		}
		sid, ended, err := s.deps.Session.Begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		for i, x := range ended {
			if err := s.deps.Events.Append(tx, x.OwnEvent(ev[1+i], x.Reason)); err != nil {
				return err
			}
		}
		in := &session.Current{ID: sid, Session: rec, Person: t.person}
		if t.token != "" {
			if err := s.deps.Events.Append(tx, in.OwnEvent(ev[3], ActionLogin)); err != nil {
				return err
			}
		}
		return s.deps.Events.Append(tx, in.OwnEvent(ev[0], "by action token"))
	})
	return token, to, err
}
