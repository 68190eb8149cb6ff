package proof

import (
	"errors"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// LinkKind is what a link that a person is sent is good for. A person has at most one of each kind: a newer one ends the older.
type LinkKind string

// LeadLinks sets the page that links of a kind lead to. New calls it for each before the service is used.
func (s *Service) LeadLinks(kind LinkKind, path string) {
	if s.linkPaths == nil {
		s.linkPaths = map[LinkKind]string{}
	}
	s.linkPaths[kind] = path
}

// LinkPath returns the page that links of a kind lead to.
func (s *Service) LinkPath(kind LinkKind) string { return s.linkPaths[kind] }

const (
	LinkParam  = "token"   // its values are kept out of access logs
	LinkTo     = "to"      // of the data: the e-mail address that the link was sent to. It ends when the person is reached elsewhere
	LinkNumber = "number"  // of the data: the telephone number that the code for it was sent to (E.164). It ends when that is another
	LinkCookie = time.Hour // how long a page that a link has opened may stay open
)

// NewLink stores a link for a person in place of an older one of the kind, and returns the path of ours that it is. What changes the person's epoch
// (another password, a block) ends it, and so does another address where data has LinkTo, another number where it has LinkNumber. For an id of nobody everything is the same,
// and the link is good for nothing.
func (s *Service) NewLink(tx storage.Tx, kind LinkKind, personID string, data map[string]string, life time.Duration, now time.Time) (path string, err error) {
	token, err := s.putLink(tx, kind, personID, data, life, now)
	return s.LinkPath(kind) + "?" + url.Values{LinkParam: {token}}.Encode(), err
}

// putLink is NewLink and returns the token alone.
func (s *Service) putLink(tx storage.Tx, kind LinkKind, personID string, data map[string]string, life time.Duration, now time.Time) (token string, err error) {
	token, err = secret.NewToken(s.random, secret.MailLink)
	if err != nil {
		return "", err
	}
	p, err := person.Records.Get(tx, personID)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	g, err := session.Globals.Get(tx, session.GlobalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	newest := storage.Key(personID, string(kind))
	switch before, err := linksOf.Get(tx, newest); {
	case err == nil:
		if err := linkRecords.Delete(tx, before); err != nil {
			return "", err
		}
	case !errors.Is(err, storage.ErrNotFound):
		return "", err
	}
	hash := secret.Hash(token)
	rec := linkRecord{Kind: string(kind), PersonID: personID, Epoch: p.Epoch, Global: g.Epoch, Data: data, CreatedAt: now, ExpiresAt: now.Add(life)}
	if err := linkRecords.Create(tx, hash, rec, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
		return "", err
	}
	if err := linksOf.Put(tx, newest, hash, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
		return "", err
	}
	return token, nil
}

// ReadLink returns a link that is good, or ErrNoLink: it is unknown, used, over, not the newest, or of a person who is blocked, gone, or has a new
// password or address since.
func (s *Service) ReadLink(tx storage.Tx, kind LinkKind, token string, now time.Time) (linkRecord, error) {
	if !secret.IsToken(secret.MailLink, token) {
		return linkRecord{}, ErrNoLink
	}
	rec, err := linkRecords.Get(tx, secret.Hash(token))
	var p person.Record
	if err == nil {
		p, err = person.Records.Get(tx, rec.PersonID)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return rec, ErrNoLink
	}
	if err != nil {
		return rec, err
	}
	g, err := session.Globals.Get(tx, session.GlobalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return rec, err
	}
	if rec.Kind != string(kind) || !rec.ExpiresAt.After(now) || p.State == person.Blocked || p.State == person.Removed || p.Epoch != rec.Epoch || rec.Global != g.Epoch {
		return rec, ErrNoLink
	}
	to, number := rec.Data[LinkTo], rec.Data[LinkNumber]
	if to == "" && number == "" {
		return rec, nil
	}
	t, err := s.LinkReached(tx, rec.PersonID, &p)
	if err == nil && (to != "" && person.FoldEmail(t.Address()) != person.FoldEmail(to) || number != "" && person.TextNumber(t.Profile) != number) {
		err = ErrNoLink
	}
	return rec, err
}

// SpendLink is ReadLink and uses the link up.
func (s *Service) SpendLink(tx storage.Tx, kind LinkKind, token string, now time.Time) (linkRecord, error) {
	rec, err := s.ReadLink(tx, kind, token, now)
	if err != nil {
		return rec, err
	}
	if err := linkRecords.Delete(tx, secret.Hash(token)); err != nil {
		return rec, err
	}
	return rec, linksOf.Delete(tx, storage.Key(rec.PersonID, string(kind)))
}

// LinkReached is where a person reads what lets somebody in. An address that a provider has brought and nobody vouches for may be another's.
func (s *Service) LinkReached(tx storage.Tx, id string, rec *person.Record) (person.Recipient, error) {
	prof, err := person.ReadProfile(tx, id, rec)
	if err != nil {
		return person.Recipient{}, err
	}
	t := person.Recipient{ID: id, Rec: rec, Profile: &prof.Profile, VerifiedOnly: rec.External != ""}
	if !t.VerifiedOnly {
		for _, err := range person.IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(id), Limit: 1}) {
			if err != nil {
				return person.Recipient{}, err
			}
			t.VerifiedOnly = true
		}
	}
	return t, nil
}

// OpenLink is a link that a browser has opened.
type OpenLink struct {
	Kind  LinkKind
	Token string
	Rec   linkRecord
}

// Form binds the form of the page to the link.
func (o *OpenLink) Form() string { return "link:" + string(o.Kind) + ":" + secret.Hash(o.Token) }

func LinkCookieOf(kind LinkKind) string { return "link-" + string(kind) }
