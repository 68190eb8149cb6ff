package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
)

// maxCases bounds what one form can ask.
const maxCases = 200

// errNoPolicy is the error of a policy that is not in the Caddyfile.
var errNoPolicy = errors.New("there is no such policy in the Caddyfile")

// shelf has one policy, which need not be stored.
type shelf struct{ book *policy.Book }

func (s shelf) Current(context.Context) (*policy.Book, recheck.Basis, error) {
	return s.book, recheck.Basis{}, nil
}

// test puts the cases of a text to one policy alone, as `caddy gatehouse policy test` puts those of a file to the
// sites. p nil: that of the Caddyfile. Persons whom the text does not describe are those of the storage.
func (s *Sites) test(r *http.Request, inst *adminapi.Instance, name string, p *settings.Policy,
	text string,
) (out []sites.Tested, err error) {
	rules := s.named[name]
	if p != nil {
		raw, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		found, at, err := policy.Load(s.ctx, name, raw, sitepath.CheckPublic)
		if err != nil {
			return nil, &sites.Wrong{Field: "json", Reason: strings.TrimPrefix(at+": "+err.Error(), ": ")}
		}
		rules = found
	}
	if rules == nil {
		return nil, errNoPolicy
	}
	now := time.Now().UTC()
	var failed error // to look someone up
	cases, err := explain.ReadCases([]byte(text), "line", func(username string) (c protect.Caller, err error) {
		c, notes, err := inst.CallerOf(r, &adminapi.ExplainRequest{Person: username})
		switch {
		case errors.Is(err, person.ErrNoPerson):
			return protect.Caller{}, nil
		case err != nil:
			failed = err
		case c.Who == nil && len(notes) > 0:
			return c, errors.New(notes[0])
		}
		return c, err
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, &sites.Wrong{Field: "cases", Reason: err.Error()}
	}
	if len(cases.List) > maxCases {
		return nil, &sites.Wrong{Field: "cases", Reason: fmt.Sprintf("at most %d cases", maxCases)}
	}
	gate := explain.Gate{Name: name, Protect: s.gates.DecidedAlone()}
	library := shelf{policy.NewBook(map[string]*policy.Policy{forwardauth.Alone: rules})}
	outcomes, err := cases.Run(r.Context(), func(ctx context.Context, q explain.Request, c protect.Caller) (*explain.Answer, error) {
		if c.Policies = library; c.Browser { // a policy alone has no sessions: a token stands for one
			c.Browser, c.AsSession = false, true
		}
		return explain.AskGate(ctx, gate, q, c)
	}, now)
	if bad := new(explain.BadRequest); errors.As(err, bad) {
		return nil, &sites.Wrong{Field: "cases", Reason: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	for i := range outcomes {
		k, o := &cases.List[i], &outcomes[i]
		rule, place := o.Answer.Decider()
		if rule == "" {
			place = ""
		}
		out = append(out, sites.Tested{
			Caller: k.Caller, Method: k.Method, URL: k.URL, Want: string(k.Want), Got: string(o.Answer.Verdict), Rule: rule, Place: place, OK: o.OK,
		})
	}
	return out, nil
}
