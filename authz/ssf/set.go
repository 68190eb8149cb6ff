package ssf

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// claims are those of a security event token. It has neither sub nor exp, so no one takes it for another token. (RFC
// 8417 2.2; OpenID SSF 1.0, 4.1)
type claims struct {
	Issuer   string         `json:"iss"`
	Audience string         `json:"aud"`
	IssuedAt int64          `json:"iat"`
	ID       string         `json:"jti"`
	Subject  subjectID      `json:"sub_id"`
	Events   map[string]any `json:"events"`
}

// body is an event in a token. (OpenID CAEP 1.0, 2 and 3; OpenID RISC Profile 1.0, 2)
type body struct {
	Time       int64          `json:"event_timestamp,omitempty"`
	By         string         `json:"initiating_entity,omitempty"`
	State      string         `json:"state,omitempty"`
	Credential string         `json:"credential_type,omitempty"`
	Change     string         `json:"change_type,omitempty"`
	Claims     map[string]any `json:"claims,omitempty"`
	Namespace  string         `json:"namespace,omitempty"`
	Level      string         `json:"current_level,omitempty"`
}

// errNotTold says that the receiver is not told of an item.
var errNotTold = errors.New("the receiver is not told")

// event returns the signed token of an item, or errNotTold.
func (s *Service) event(ctx context.Context, c *client.Client, rec *streamRecord, id string, item *itemRecord) (string, error) {
	e := body{Time: item.At.Unix(), By: item.By}
	subject := subjectID{Format: "opaque", ID: rec.ID}
	if item.Kind == verification {
		e = body{State: item.Detail}
	} else {
		sub := s.deps.Tokens.SubjectFor(c, item.Person)
		user := subjectID{Format: "iss_sub", Issuer: s.issuer, Subject: sub}
		if subject = user; item.Session != "" {
			subject = subjectID{Format: "complex", User: &user, Session: &subjectID{Format: "opaque", ID: item.Session}}
		}
		if err := s.describe(ctx, c, rec, sub, item, &e); err != nil {
			return "", err
		}
	}
	return s.deps.Keys.Sign(c.IDTokenAlg, keys.TypeSecurityEvent, claims{
		Issuer: s.issuer, Audience: c.ID, IssuedAt: s.now().Unix(), ID: id, Subject: subject, Events: map[string]any{uris[item.Kind]: e},
	})
}

// describe adds what the event says of the person now.
func (s *Service) describe(ctx context.Context, c *client.Client, rec *streamRecord, sub string, item *itemRecord, e *body) error {
	var person authn.Subject
	level, hears, now := 0, false, s.now()
	err := s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		person, level = authn.Subject{}, 0
		if hears, err = s.hears(tx, rec.ID, sub); err != nil || !hears {
			return err
		}
		switch item.Kind {
		case claimsChange:
			if person, err = s.deps.Subjects.Get(tx, item.Person); errors.Is(err, storage.ErrNotFound) {
				err = nil
			}
		case levelChange:
			var si authn.Session
			if si, err = s.deps.Subjects.Session(tx, item.Session, now); errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			level = si.Level
		}
		return err
	})
	if err == nil && !hears {
		err = errNotTold
	}
	if err != nil {
		return err
	}
	switch item.Kind {
	case credentialChange:
		e.Credential, e.Change = item.Detail, item.Change
	case claimsChange:
		var names []string
		for scope, of := range client.ScopeClaims {
			if c.HasScope(scope) {
				names = append(names, of...)
			}
		}
		if person.ID != "" {
			e.Claims, err = s.deps.Tokens.PersonClaims(ctx, &person, names)
		}
		if err == nil && len(e.Claims) == 0 {
			err = errNotTold
		}
	case levelChange:
		if e.Namespace, e.Level = s.issuer, token.ACR(level); level == 0 {
			err = errNotTold
		}
	}
	return err
}

// late reports whether no one waits for an item any more.
func (i *itemRecord) late(now time.Time) bool { return !i.At.IsZero() && now.Sub(i.At) > kept }
