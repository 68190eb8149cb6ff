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

// showTicket serves GET /sign-in/token?ticket=…: it puts the ticket into a cookie, so that no later request carries it in its address, and asks.
// Whoever only looks at the link, such as a scanner of mails, uses nothing up.
func (s *Service) showTicket(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if ticket := r.URL.Query().Get(TicketParam); ticket != "" {
		if !secret.IsToken(secret.SignInTicket, ticket) {
			s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
			return
		}
		s.jar.Set(w, kindTicket, ticket, ticketLife)
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Location", ticketPath)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	t, err := s.ticket(r)
	if err != nil {
		s.failTicket(w, r, err)
		return
	}
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	s.Pages.Render(w, r, page.View{Template: "token", Client: login.Client{Targets: targetsOf(t.to)}, Data: page.Token{
		Action: ticketPath, CSRF: s.Pages.CSRF(browser, ticketForm(t)), Account: t.person.Username, Detail: t.person.Name,
	}})
}

// readTicket is a ticket with whom it signs in and where they go then.
type readTicket struct {
	hash   string
	rec    ticketRecord
	person personRecord
	to     string
}

// ticketForm binds the form to the ticket that it shows.
func ticketForm(t *readTicket) string { return "ticket:" + t.hash }

// ticket returns the ticket of the browser, or storage.ErrNotFound when there is none that is good.
func (s *Service) ticket(r *http.Request) (t *readTicket, err error) {
	ticket := s.jar.Get(r, kindTicket)
	if !secret.IsToken(secret.SignInTicket, ticket) {
		return nil, storage.ErrNotFound
	}
	now := s.Now()
	err = s.Store.View(r.Context(), func(tx storage.Tx) error {
		t, err = s.readTicket(tx, secret.Hash(ticket), now)
		return err
	})
	return t, err
}

func (s *Service) readTicket(tx storage.Tx, hash string, now time.Time) (*readTicket, error) {
	t := &readTicket{hash: hash}
	var err error
	if t.rec, err = signInTickets.Get(tx, hash); err != nil {
		return nil, err
	}
	if t.person, err = persons.Get(tx, t.rec.PersonID); err != nil {
		return nil, err
	}
	if !t.rec.ExpiresAt.After(now) || t.person.State != Active || t.person.Epoch != t.rec.Epoch {
		return nil, storage.ErrNotFound
	}
	u, err := s.Units(tx)
	if err != nil {
		return nil, err
	}
	if !u.Features.LoginEnabled {
		return nil, errClosed
	}
	if t.to = landing(u, ""); t.rec.RedirectURI != "" && config.Whitelisted(u.Features.ActionToken.WhitelistedURLs, t.rec.RedirectURI) {
		t.to = t.rec.RedirectURI
	}
	return t, nil
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
	t, err := s.ticket(r)
	if err != nil {
		s.failTicket(w, r, err)
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
	s.sendOn(w, r, to)
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
	ev, err := s.newEvents(s.Origin(r), loginSucceeded, signedOut)
	if err != nil {
		return "", "", err
	}
	now, old := s.Now(), hashed(s.jar.Get(r, kindSession))
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		t, err := s.readTicket(tx, hash, now)
		if err != nil {
			return err
		}
		if err := signInTickets.Delete(tx, hash); err != nil {
			return err
		}
		to = t.to
		rec := sessionRecord{
			PersonID: t.rec.PersonID, Epoch: t.person.Epoch, AuthTime: now, Seen: now, Level: t.rec.Level, AMR: []string{"CUSTOM_AUTHENTICATOR"}, Provider: provider,
		}
		rec.from(s.Origin(r))
		sid, ended, err := s.begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		if ended != nil {
			if err := s.Events.Append(tx, ended.own(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		return s.Events.Append(tx, (&signedIn{id: sid, session: rec, person: t.person}).own(ev[0], "by action token"))
	})
	return token, to, err
}
