package actiontoken

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The types of actions. (identity service document, TokenActionResult)
const (
	ActionLogin          = "LOGIN"
	ActionCoupleSession  = "COUPLE_EXTERNAL_IDP_FROM_SESSION"
	ActionCouple         = "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"
	ActionActivatePerson = "PERSON_ACTIVATION"
)

// The parameters of actions.
const (
	paramIDP      = "idp_id"
	paramExternal = "external_id"
	paramIssuer   = "issuer"
	paramSession  = "session_id"
	paramLevel    = "authentication_level"
)

const (
	maxActions        = 10
	maxActionTTL      = 365 * 24 * 3600 // seconds
	defaultActionTTL  = 3600            // seconds, of what the configuration says nothing about
	maxActionValue    = 512             // characters of a parameter
	revokedAtOnce     = 500             // records in one transaction
	highestAuthnLevel = 4
)

// Action is one thing that an action token does.
type Action struct {
	Type string `json:"type" rest:"required" cbor:"1,keyasint"`
	// Parameters: idp_id, external_id and optionally issuer of COUPLE_EXTERNAL_IDP_FROM_PARAMETERS, session_id of COUPLE_EXTERNAL_IDP_FROM_SESSION.
	Parameters map[string]string `json:"parameters,omitempty" cbor:"2,keyasint,omitempty"`
}

// NewActionToken is what an action token is to do.
type NewActionToken struct {
	Actions []Action `json:"actions" rest:"required"`
	// TTL counts seconds, up to a year. Default: as the features unit says of the actions, the shortest.
	TTL int `json:"ttl,omitempty"`
	// RedirectURI is where the person goes afterwards: whitelisted for action tokens. Default: nowhere in particular.
	RedirectURI string `json:"redirect_uri,omitempty"`
	// Level is the authentication level of a LOGIN. Default: as the features unit says.
	Level int `json:"authentication_level,omitempty"`
	// AppToWeb says that the LOGIN carries a sign-in from an app to the web.
	AppToWeb bool `json:"app_to_web,omitempty"`
}

// ActionToken is a new action token, the only time that it is shown.
type ActionToken struct {
	ID        string    `json:"id"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// actionParameters are those that each type of action may have, and whether it must.
var actionParameters = map[string]map[string]bool{
	ActionLogin:          {},
	ActionCoupleSession:  {paramSession: true},
	ActionCouple:         {paramIDP: true, paramExternal: true, paramIssuer: false},
	ActionActivatePerson: {},
}

var actionParameter = regexp.MustCompile(`^[a-z_]{1,64}$`)

// check says what of a token cannot be.
func (n *NewActionToken) check() error {
	switch {
	case len(n.Actions) == 0 || len(n.Actions) > maxActions:
		return &person.ValidationError{Field: "actions", Problem: fmt.Sprintf("must be 1 to %d", maxActions)}
	case n.TTL < 0 || n.TTL > maxActionTTL:
		return &person.ValidationError{Field: "ttl", Problem: fmt.Sprintf("must be 1 to %d seconds", maxActionTTL)}
	case n.Level < 0 || n.Level > highestAuthnLevel:
		return &person.ValidationError{Field: "authentication_level", Problem: "must be 1 to 4"}
	case !n.has(ActionLogin) && (n.Level != 0 || n.AppToWeb):
		return &person.ValidationError{Field: "actions", Problem: "have no LOGIN, to which authentication_level and app_to_web belong"}
	}
	seen := map[string]bool{}
	for _, a := range n.Actions {
		known, ok := actionParameters[a.Type]
		if !ok {
			return &person.ValidationError{Field: "actions", Problem: "have a type that is none"}
		}
		if once := a.Type == ActionLogin || a.Type == ActionActivatePerson; once && seen[a.Type] {
			return &person.ValidationError{Field: "actions", Problem: "have " + a.Type + " twice"}
		}
		seen[a.Type] = true
		for name, value := range a.Parameters {
			if _, ok := known[name]; !ok || !actionParameter.MatchString(name) {
				return &person.ValidationError{Field: "actions", Problem: a.Type + " has a parameter that it does not know"}
			}
			if value == "" || !person.IsText(value, maxActionValue) {
				return &person.ValidationError{Field: "actions", Problem: fmt.Sprintf("must have parameters of 1 to %d characters, none of them a control character", maxActionValue)}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if known[name] && a.Parameters[name] == "" {
				return &person.ValidationError{Field: "actions", Problem: a.Type + " needs the parameter " + name}
			}
		}
	}
	return nil
}

func (n *NewActionToken) has(kind string) bool {
	return slices.ContainsFunc(n.Actions, func(a Action) bool { return a.Type == kind })
}

// life is how long the token is good.
func (n *NewActionToken) life(f *config.ActionToken) time.Duration {
	ttl := n.TTL
	if ttl == 0 {
		ttl = maxActionTTL
		for _, a := range n.Actions {
			switch {
			case a.Type == ActionLogin && n.AppToWeb:
				ttl = min(ttl, f.AppToWeb.TTL)
			case a.Type == ActionLogin:
				ttl = min(ttl, f.Login.TTL)
			case a.Type == ActionActivatePerson:
				ttl = min(ttl, defaultActionTTL)
			default:
				ttl = min(ttl, f.Coupling.TTL)
			}
		}
	}
	return time.Duration(ttl) * time.Second
}

// MakeActionToken makes an action token for a person (id). Whether the features that it needs are on is asked when it is used. Errors:
// person.ErrNoPerson, *person.ValidationError.
func (s *Service) MakeActionToken(ctx context.Context, personID string, n NewActionToken, by event.Actor) (ActionToken, error) {
	if !person.IsID(personID) {
		return ActionToken{}, person.ErrNoPerson
	}
	if err := n.check(); err != nil {
		return ActionToken{}, err
	}
	token, err := secret.NewToken(s.random, secret.ActionToken)
	if err != nil {
		return ActionToken{}, err
	}
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return ActionToken{}, err
	}
	ev, err := s.person.NewEvents(by.Origin, actionTokenMade)
	if err != nil {
		return ActionToken{}, err
	}
	now, hash := s.now(), secret.Hash(token)
	out := ActionToken{ID: id.String(), Token: token}
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		p, err := person.Records.Get(tx, personID)
		if errors.Is(err, storage.ErrNotFound) || err == nil && p.State == person.Removed {
			return person.ErrNoPerson
		}
		if err != nil {
			return err
		}
		u, err := s.units(tx)
		if err != nil {
			return err
		}
		if n.RedirectURI != "" && !config.Whitelisted(u.Features.ActionToken.WhitelistedURLs, n.RedirectURI) {
			return &person.ValidationError{Field: "redirect_uri", Problem: "is not whitelisted for action tokens"}
		}
		rec := Record{
			ID: out.ID, PersonID: personID, Epoch: p.Epoch, Actions: n.Actions, RedirectURI: n.RedirectURI, Level: n.Level, AppToWeb: n.AppToWeb,
			CreatedAt: now, ExpiresAt: now.Add(n.life(&u.Features.ActionToken)),
		}
		out.ExpiresAt = rec.ExpiresAt
		if err := Put(tx, hash, rec); err != nil {
			return err
		}
		e := by.Fill(ev[0], personID, actionNames(n.Actions))
		e.Partition = p.PartitionName()
		return s.events.Append(tx, e)
	})
	if err != nil {
		return ActionToken{}, err
	}
	return out, nil
}

func Put(tx storage.Tx, hash string, rec Record) error {
	if err := Records.Create(tx, hash, rec, rec.ExpiresAt); err != nil {
		return err
	}
	return RecordsOf.Create(tx, storage.Key(rec.PersonID, rec.ID), hash, rec.ExpiresAt)
}

// RevokeActionTokens revokes an action token of a person (id), or all of them when tokenID is empty. Errors: person.ErrNoPerson, ErrNoActionToken.
func (s *Service) RevokeActionTokens(ctx context.Context, personID, tokenID string, by event.Actor) error {
	if !person.IsID(personID) {
		return person.ErrNoPerson
	}
	for {
		more, err := s.revokeSome(ctx, personID, tokenID, by)
		if err != nil || !more {
			return err
		}
	}
}

// revokeSome revokes as many tokens as one transaction should bear.
func (s *Service) revokeSome(ctx context.Context, personID, tokenID string, by event.Actor) (more bool, err error) {
	ev, err := s.person.NewEvents(by.Origin, actionTokensRevoked)
	if err != nil {
		return false, err
	}
	now := s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		more = false
		p, err := person.Records.Get(tx, personID)
		if errors.Is(err, storage.ErrNotFound) || err == nil && p.State == person.Removed {
			return person.ErrNoPerson
		}
		if err != nil {
			return err
		}
		n := 0
		if tokenID != "" {
			n, err = Revoke(tx, storage.Key(personID, tokenID), now)
			if err == nil && n == 0 {
				err = ErrNoActionToken
			}
		} else {
			n, more, err = revokeActionTokens(tx, personID, now)
		}
		if err != nil || n == 0 {
			return err
		}
		e := by.Fill(ev[0], personID, fmt.Sprintf("%d revoked", n))
		e.Partition = p.PartitionName()
		return s.events.Append(tx, e)
	})
	return more, err
}

func revokeActionTokens(tx storage.Tx, personID string, now time.Time) (n int, more bool, err error) {
	seen := 0
	for e, err := range RecordsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID), Limit: revokedAtOnce}) {
		if err != nil {
			return n, false, err
		}
		one, err := Revoke(tx, e.Key, now)
		if err != nil {
			return n, false, err
		}
		seen++
		n += one
	}
	return n, seen == revokedAtOnce, nil
}

// Revoke removes a token by its key in RecordsOf, and says whether it was still good.
func Revoke(tx storage.Tx, key string, now time.Time) (int, error) {
	hash, err := RecordsOf.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	rec, err := Records.Get(tx, hash)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return 0, err
	}
	if err := Records.Delete(tx, hash); err != nil {
		return 0, err
	}
	if err := RecordsOf.Delete(tx, key); err != nil {
		return 0, err
	}
	if !rec.ExpiresAt.After(now) {
		return 0, nil
	}
	return 1, nil
}

// actionNames are the types of actions, for events.
func actionNames(actions []Action) string {
	out := ""
	for i, a := range actions {
		if i > 0 {
			out += ", "
		}
		out += a.Type
	}
	return out
}
