package identity

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// linkKind is what a link that a person is sent is good for. A person has at most one of each kind: a newer one ends the older.
type linkKind string

// leadLinks sets the page that links of a kind lead to. New calls it for each before the service is used.
func (s *Service) leadLinks(kind linkKind, path string) {
	if s.linkPaths == nil {
		s.linkPaths = map[linkKind]string{}
	}
	s.linkPaths[kind] = path
}

// linkPath returns the page that links of a kind lead to.
func (s *Service) linkPath(kind linkKind) string { return s.linkPaths[kind] }

const (
	linkParam  = "token"   // its values are kept out of access logs
	linkTo     = "to"      // of the data: the e-mail address that the link was sent to. It ends when the person is reached elsewhere
	linkNumber = "number"  // of the data: the telephone number that the code for it was sent to (E.164). It ends when that is another
	linkCookie = time.Hour // how long a page that a link has opened may stay open
)

// newLink stores a link for a person in place of an older one of the kind, and returns the path of ours that it is. What changes the person's epoch
// (another password, a block) ends it, and so does another address where data has linkTo, another number where it has linkNumber. For an id of nobody everything is the same,
// and the link is good for nothing.
func (s *Service) newLink(tx storage.Tx, kind linkKind, personID string, data map[string]string, life time.Duration, now time.Time) (path string, err error) {
	token, err := s.putLink(tx, kind, personID, data, life, now)
	return s.linkPath(kind) + "?" + url.Values{linkParam: {token}}.Encode(), err
}

// putLink is newLink and returns the token alone.
func (s *Service) putLink(tx storage.Tx, kind linkKind, personID string, data map[string]string, life time.Duration, now time.Time) (token string, err error) {
	token, err = secret.NewToken(s.Random, secret.MailLink)
	if err != nil {
		return "", err
	}
	p, err := persons.Get(tx, personID)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	g, err := globals.Get(tx, globalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	newest := storage.Key(personID, string(kind))
	switch before, err := linksOf.Get(tx, newest); {
	case err == nil:
		if err := links.Delete(tx, before); err != nil {
			return "", err
		}
	case !errors.Is(err, storage.ErrNotFound):
		return "", err
	}
	hash := secret.Hash(token)
	rec := linkRecord{Kind: string(kind), PersonID: personID, Epoch: p.Epoch, Global: g.Epoch, Data: data, CreatedAt: now, ExpiresAt: now.Add(life)}
	if err := links.Create(tx, hash, rec, rec.ExpiresAt.Add(collectAfter)); err != nil {
		return "", err
	}
	if err := linksOf.Put(tx, newest, hash, rec.ExpiresAt.Add(collectAfter)); err != nil {
		return "", err
	}
	return token, nil
}

// readLink returns a link that is good, or errNoLink: it is unknown, used, over, not the newest, or of a person who is blocked, gone, or has a new
// password or address since.
func (s *Service) readLink(tx storage.Tx, kind linkKind, token string, now time.Time) (linkRecord, error) {
	if !secret.IsToken(secret.MailLink, token) {
		return linkRecord{}, errNoLink
	}
	rec, err := links.Get(tx, secret.Hash(token))
	var p personRecord
	if err == nil {
		p, err = persons.Get(tx, rec.PersonID)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return rec, errNoLink
	}
	if err != nil {
		return rec, err
	}
	g, err := globals.Get(tx, globalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return rec, err
	}
	if rec.Kind != string(kind) || !rec.ExpiresAt.After(now) || p.State == Blocked || p.State == Removed || p.Epoch != rec.Epoch || rec.Global != g.Epoch {
		return rec, errNoLink
	}
	to, number := rec.Data[linkTo], rec.Data[linkNumber]
	if to == "" && number == "" {
		return rec, nil
	}
	t, err := s.reached(tx, rec.PersonID, &p)
	if err == nil && (to != "" && foldEmail(t.address()) != foldEmail(to) || number != "" && textNumber(t.profile) != number) {
		err = errNoLink
	}
	return rec, err
}

// spendLink is readLink and uses the link up.
func (s *Service) spendLink(tx storage.Tx, kind linkKind, token string, now time.Time) (linkRecord, error) {
	rec, err := s.readLink(tx, kind, token, now)
	if err != nil {
		return rec, err
	}
	if err := links.Delete(tx, secret.Hash(token)); err != nil {
		return rec, err
	}
	return rec, linksOf.Delete(tx, storage.Key(rec.PersonID, string(kind)))
}

// reached is where a person reads what lets somebody in. An address that a provider has brought and nobody vouches for may be another's.
func (s *Service) reached(tx storage.Tx, id string, rec *personRecord) (told, error) {
	prof, err := readProfile(tx, id, rec)
	if err != nil {
		return told{}, err
	}
	t := told{id: id, rec: rec, profile: &prof.Profile, verifiedOnly: rec.External != ""}
	if !t.verifiedOnly {
		for _, err := range identitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(id), Limit: 1}) {
			if err != nil {
				return told{}, err
			}
			t.verifiedOnly = true
		}
	}
	return t, nil
}

// opened is a link that a browser has opened.
type opened struct {
	kind  linkKind
	token string
	rec   linkRecord
}

// form binds the form of the page to the link.
func (o *opened) form() string { return "link:" + string(o.kind) + ":" + secret.Hash(o.token) }

func linkCookieOf(kind linkKind) string { return "link-" + string(kind) }

// openLink returns the link that a request for its page is about. Coming from the mail it is put into a cookie and the browser sent on
// without it, so that neither history nor Referer keeps it; looking at it uses nothing up. Otherwise it has written the answer, which
// leads to again where the link is no good, and is not ok.
func (s *Service) openLink(w http.ResponseWriter, r *http.Request, kind linkKind, again string) (*opened, bool) {
	if token := r.URL.Query().Get(linkParam); token != "" && r.Method != http.MethodPost {
		if !secret.IsToken(secret.MailLink, token) {
			s.failLink(w, r, kind, again, errNoLink)
			return nil, false
		}
		s.jar.Set(w, linkCookieOf(kind), token, linkCookie)
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Location", s.linkPath(kind))
		w.WriteHeader(http.StatusSeeOther)
		return nil, false
	}
	o, now := &opened{kind: kind, token: s.jar.Get(r, linkCookieOf(kind))}, s.Now()
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		o.rec, err = s.readLink(tx, kind, o.token, now)
		return err
	})
	if err != nil {
		s.failLink(w, r, kind, again, err)
		return nil, false
	}
	return o, true
}

// checkLinkForm tells whether a POST is of the page of that link. Otherwise it has written the answer.
func (s *Service) checkLinkForm(w http.ResponseWriter, r *http.Request, o *opened) bool {
	err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), o.form())
	if err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, s.linkPath(o.kind))
	}
	return err == nil
}

// failLink writes the page for a link that is good for nothing any more. again is a path of ours where one gets a new one, or "".
func (s *Service) failLink(w http.ResponseWriter, r *http.Request, kind linkKind, again string, err error) {
	if errors.Is(err, errNoLink) {
		s.jar.Clear(w, linkCookieOf(kind))
		s.Pages.Error(w, r, http.StatusBadRequest, "error.link", again)
		return
	}
	s.fail(w, r, err, s.linkPath(kind))
}
