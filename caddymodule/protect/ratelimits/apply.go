package ratelimits

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/limit"
)

// most bounds the limits that one request is counted by.
const most = 32

// Call is a request with what is known of its sender.
type Call struct {
	Request    *http.Request // as matchers see it
	Address    string        // of the client. Empty: it is unknown
	Who        *token.Introspection
	Credential string
}

// Counted has the counts of a request, so they can be told to its sender, and taken back.
type Counted struct {
	list []entry
	few  [4]entry // of list, as long as they do
	by   *limit.Counters
}

type entry struct {
	rule  *rule
	key   limit.Key
	state limit.State
}

// Refused is why a request must wait.
type Refused struct {
	Quota bool          // and not a limit of speed
	Text  string        // 100/min per client
	Name  string        // under which the fields of the answer list it
	Retry time.Duration // until a request can pass
}

// Step is Before or After.
type Step = func(*limit.Counters, *Counted, Call, time.Time) (*Refused, error)

// Before counts a request before anything is known but its address. A nil result: it can go on.
func (s *Set) Before(by *limit.Counters, c *Counted, call Call, now time.Time) (*Refused, error) {
	if s == nil || len(s.before) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	return c.take(by, s.before, call, now)
}

// After counts a request that passes. One that is refused here costs nothing. call.Who nil: no one was asked who they
// are, and only what counts for the whole site counts.
func (s *Set) After(by *limit.Counters, c *Counted, call Call, now time.Time) (*Refused, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // documented
	}
	from := len(c.list)
	refused, err := c.take(by, s.after, call, now)
	if refused == nil && err == nil && s.plans != nil && call.Who != nil {
		refused, err = c.take(by, s.plans.of(call.Who), call, now)
	}
	if refused != nil || err != nil {
		c.back(from, refused != nil)
	}
	return refused, err
}

// take counts a request by the rules that concern it, up to the first that refuses it.
func (c *Counted) take(by *limit.Counters, rules []*rule, call Call, now time.Time) (*Refused, error) {
	c.by = by
	for _, r := range rules {
		if call.Who == nil && r.per != perIP && r.per != perSite {
			continue
		}
		if len(r.matchers) > 0 {
			ok, err := r.matchers.AnyMatchWithError(call.Request)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", r.name, r.text, err)
			}
			if !ok {
				continue
			}
		}
		e := entry{rule: r, key: r.key(call, now)}
		if r.quota {
			e.state = by.TakeQuota(e.key, r.bucket.Rate, r.about, now)
		} else {
			e.state = by.Take(r.per == perIP, e.key, r.bucket, now)
		}
		if c.list == nil {
			c.list = c.few[:0]
		}
		c.list = append(c.list, e)
		if !e.state.OK {
			return &Refused{Quota: r.quota, Text: r.name + " " + r.text, Name: r.label[1 : len(r.label)-1], Retry: e.state.Retry}, nil
		}
	}
	return nil, nil //nolint:nilnil // documented
}

// GiveBack takes back what was counted after the address, since something else has refused the request.
func (c *Counted) GiveBack() { c.back(0, false) }

// back takes back what was counted from an entry on, except by addresses. lastRefused says that the last entry has
// refused and counted nothing.
func (c *Counted) back(from int, lastRefused bool) {
	for i := from; i < len(c.list); i++ {
		e := &c.list[i]
		switch {
		case e.rule.per == perIP, lastRefused && i == len(c.list)-1, !e.state.OK:
			continue
		case e.rule.quota:
			c.by.ReturnQuota(e.key)
		default:
			c.by.Return(e.key, e.rule.bucket)
		}
		e.state.OK = false
		e.state.Remaining = min(e.state.Remaining+1, e.rule.bucket.Most())
	}
}

// maxName is the length of names that are kept as they are.
const maxName = 200

// key returns the caller that a rule counts a request for.
func (r *rule) key(call Call, now time.Time) limit.Key {
	k := limit.Key{Rule: r.id}
	who := call.Who
	switch r.per {
	case perIP:
		k.Addr = network(call.Address)
		return k
	case perSite:
		return k
	case perToken:
		hash := sha256.Sum256([]byte(call.Credential))
		copy(k.Addr[:], hash[:])
		return k
	case perClient:
		client(&k, who)
	case perAppPassword:
		if k.Name = who.AppPassword; k.Name == "" {
			person(&k, who)
			break
		}
		k.Addr[0] = limit.AnAppPassword
	case perSession:
		if k.Name = who.SessionID; k.Name == "" {
			person(&k, who)
			break
		}
		k.Addr[0] = limit.ASession
	case perClaim:
		one, many := policy.Lookup(who, r.claim, now)
		if one == "" {
			one = strings.Join(many, "\n")
		}
		if k.Name = one; one == "" {
			person(&k, who)
			break
		}
		k.Addr[0] = limit.AClaim
	default:
		person(&k, who)
	}
	if len(k.Name) > maxName {
		hash := sha256.Sum256([]byte(k.Name))
		copy(k.Addr[1:], hash[:])
		k.Name = strings.Clone(k.Name[:maxName/2])
	}
	return k
}

// person counts for the person, or without one for the client.
func person(k *limit.Key, who *token.Introspection) {
	switch {
	case who.Person != nil && who.Person.ID != "":
		k.Addr[0], k.Name = limit.APerson, who.Person.ID
	case who.Person != nil || who.ClientID == "":
		k.Addr[0], k.Name = limit.APerson, who.Subject
	default:
		k.Addr[0], k.Name = limit.AClient, who.ClientID
	}
}

// client counts for the client, or without one for the person.
func client(k *limit.Key, who *token.Introspection) {
	if who.ClientID == "" {
		person(k, who)
		return
	}
	k.Addr[0], k.Name = limit.AClient, who.ClientID
}

// network returns the address, or of IPv6 the /64, that one customer of a provider has at least. All without a known
// address are one.
func network(text string) (out [16]byte) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return out
	}
	out = addr.Unmap().As16()
	if addr.Unmap().Is6() {
		clear(out[8:])
	}
	return out
}
