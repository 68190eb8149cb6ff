package token

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/ida"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ClaimsRequest are the claims that the claims parameter asks for in addition to the scopes, by name. (OpenID Connect
// Core 5.5) Essential and voluntary claims are treated alike: an unknown value is left out (5.5.1).
type ClaimsRequest struct {
	Userinfo []string `cbor:"1,keyasint,omitempty"`
	IDToken  []string `cbor:"2,keyasint,omitempty"`
	// VerifiedUserinfo and VerifiedIDToken are what is asked for with verified_claims, in JSON, as package verified
	// reads it.
	VerifiedUserinfo string `cbor:"3,keyasint,omitempty"`
	VerifiedIDToken  string `cbor:"4,keyasint,omitempty"`
}

// OffersVerified reports whether clients can ask for verified claims.
func (l *Ledger) OffersVerified(ctx context.Context) (on bool, err error) {
	if l.deps.Verified == nil {
		return false, nil
	}
	err = l.view(ctx, func(tx storage.Tx) (err error) {
		on, err = l.deps.Verified(tx)
		return err
	})
	return on, err
}

// AddVerified adds to claims of a person those that are verified and that a client has asked for. The client learns a
// claim as verified only if it could learn the claim.
func (l *Ledger) AddVerified(ctx context.Context, claims map[string]any, asked string, c *client.Client,
	person *authn.Subject, now time.Time,
) error {
	if asked == "" || person == nil || len(person.Assurance) == 0 {
		return nil
	}
	on, err := l.OffersVerified(ctx)
	if err != nil || !on {
		return err
	}
	request, err := ida.Parse(json.RawMessage(asked))
	if err != nil {
		return fmt.Errorf("verified claims that were asked for: %w", err)
	}
	allowed := func(claim string) bool { return len(l.deps.Clients.StillClaimed(c, []string{claim}, person, now)) > 0 }
	if said := request.Answer(person.Assurance, allowed, now); said != nil {
		claims[ida.Claim] = said
	}
	return nil
}

// PersonClaims returns the known ones of these claims of a person in the types of OpenID Connect Core 5.1. Only
// permissions, which belong to the groups, cost a transaction.
func (l *Ledger) PersonClaims(ctx context.Context, person *authn.Subject, names []string) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range names {
		switch name {
		case client.ScopeGroups, client.ScopeRoles:
			out[name] = groupNames(person)
			continue
		case client.ScopePermissions:
			var of map[string][]string
			err := l.view(ctx, func(tx storage.Tx) (err error) {
				of, err = l.deps.Subjects.Permissions(tx, person.Partition, person.Groups)
				return err
			})
			if err != nil {
				return nil, err
			}
			out[name] = PermissionsOf(of)
			continue
		}
		value := person.Profile[name]
		if name == "preferred_username" && value == "" {
			value = person.Username
		}
		if value == "" {
			continue
		}
		out[name] = claimValue(name, value)
		// An address without the mark reads as verified, so the mark goes with one that is not.
		if mark := name + "_verified"; person.Profile[mark] == "false" {
			out[mark] = false
		}
	}
	return out, nil
}

// groupNames are the groups of a person in order, never nil: applications test for membership without asking whether
// there is a list.
func groupNames(person *authn.Subject) []string {
	return append([]string{}, slices.Sorted(slices.Values(person.Groups))...)
}

// PermissionsOf returns each permission of these groups once, in order, never nil.
func PermissionsOf(groups map[string][]string) []string {
	out := []string{}
	for _, permissions := range groups {
		out = append(out, permissions...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func claimValue(claim, value string) any {
	switch claim {
	case "email_verified", "phone_number_verified":
		return value == "true"
	case "updated_at":
		if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
			return json.Number(strconv.FormatInt(seconds, 10))
		}
	case "address":
		return map[string]string{"formatted": value} // OpenID Connect Core 5.1.1
	}
	return value
}
