package inventory

import (
	"context"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// Console returns the dependencies of the screens of the admin console. instance holds the running configuration.
func (s *Sites) Console(instance func(context.Context) (*adminapi.Instance, error), refusals *denial.Recorder, m *admin.Service,
	values *settings.Service, asked *access.Service, decided *decisionlog.Recorder,
) sites.Deps {
	return sites.Deps{
		Sites: s.List, Refusals: refusals, Manage: m, Settings: values, Access: asked,
		Rules: func(name string) []sites.Rule {
			if p := s.named[name]; p != nil {
				return rulesOf(p.Deny, p.Allow)
			}
			return nil
		},
		Differences: func(ctx context.Context, origins []string, limit int) (out []sites.Difference, err error) {
			list, err := decided.Differing(ctx, origins, limit)
			for i := range list {
				d := &list[i]
				out = append(out, sites.Difference{
					At: d.At, Site: d.Site, Method: d.Method, Path: d.Path, PersonID: d.PersonID, Username: d.Username, ClientID: d.ClientID,
					Live: d.Live, LiveRule: d.LiveRule, Shadow: d.Shadow, ShadowRule: d.ShadowRule,
				})
			}
			return out, err
		},
		Doctor: &onDuty, WritePolicy: writePolicy, ReadPolicy: readPolicy,
		TestPolicy: func(r *http.Request, name string, p *settings.Policy, cases string) ([]sites.Tested, error) {
			inst, err := instance(r.Context())
			if err != nil {
				return nil, err
			}
			defer inst.Leave()
			return s.test(r, inst, name, p, cases)
		},
		Explain: func(r *http.Request, q sites.Question) (*sites.Explanation, error) {
			inst, err := instance(r.Context())
			if err != nil {
				return nil, err
			}
			defer inst.Leave()
			in := adminapi.ExplainRequest{
				URL: q.URL, Method: q.Method, IP: q.Address, Person: q.Person, Client: q.Client,
				Level: q.Level, At: q.At, Ref: q.Ref,
			}
			a, err := inst.AnswerExplain(r, in)
			if err == nil {
				return explanationOf(&a), nil
			}
			if status, text := adminapi.Refused(err); status < http.StatusInternalServerError && status != http.StatusNotFound {
				return nil, &sites.Wrong{Reason: text}
			}
			return nil, err
		},
	}
}

// fits are the keys of the words that say how a rule stands to a request.
var fits = map[string]string{
	policy.Fits: "fits", policy.OtherRequest: "other_request", policy.OtherTime: "other_time", policy.OtherCaller: "other_caller",
	policy.AfterSignIn: "after_sign_in",
	policy.AfterStepUp: "after_step_up", policy.AfterNewSignIn: "after_new_sign_in", policy.WithScopes: "with_scopes",
	policy.NotAsked: "not_asked",
}

// explanationOf is an answer as the console shows it.
func explanationOf(a *adminapi.ExplainAnswer) *sites.Explanation {
	out := &sites.Explanation{
		URL: a.URL, Method: a.Method, Verdict: string(a.Verdict), Gate: a.Gate, Handler: a.Handler, Status: a.Status, Challenge: a.Challenge,
		Message: a.Message, Notes: a.Notes,
	}
	if c := a.Caller; c != nil {
		ago, err := time.ParseDuration(c.SignedIn)
		if err == nil {
			ago = max(ago, time.Nanosecond) // just now is not never
		}
		out.Caller = &sites.Caller{
			PersonID: c.PersonID, Username: c.Username, ClientID: c.ClientID, Groups: c.Groups, Scopes: c.Scopes,
			Level: c.Level, SignedIn: ago, Provider: c.Provider,
		}
	}
	for i := range a.Steps {
		s := &a.Steps[i]
		step := sites.Step{Place: s.Place, Verdict: string(s.Verdict), Why: s.Why, WantedLevel: s.WantedLevel}
		for _, l := range s.Rules {
			step.Rules = append(step.Rules, sites.Line{Kind: l.Kind, Rule: l.Rule, Place: l.Place, Fit: fits[l.Fit], Decides: l.Decides})
		}
		for _, name := range sorted(s.Headers) {
			step.Headers = append(step.Headers, sites.Header{Name: name, Value: s.Headers[name]})
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}
