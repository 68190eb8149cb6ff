package console

import (
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// seeAsAct looks at the account of a person as the person sees it. It is off unless the operator has switched it on,
// and nobody sees an account with as much to say: owners do not see each other's either.
// (docs/decisions/console.md#seeing-an-account)
func (c *Console) seeAsAct() *frame.Act {
	return &frame.Act{
		Name: "see-as", Role: frame.Operator, When: is(person.Active), Ask: askSeeAs, Do: c.seeAs,
		May: func(v *frame.Visit) error {
			switch {
			case c.frame.SeeAs == frame.Nobody || v.Role < c.frame.SeeAs:
				return frame.Denied("nobody of this role looks at accounts")
			case v.Rank >= v.Role:
				return frame.Denied("the other one has as much to say")
			}
			return nil
		},
	}
}

func askSeeAs(*frame.Visit) (frame.Question, error) {
	return frame.Question{
		Fill:   []any{"n", int(front.SeeingLasts.Minutes())},
		Fields: []page.Field{{Name: "reason", Required: true, MaxLength: person.MaxLine, Hint: "console.field.reason.hint"}},
	}, nil
}

// seeAs begins it. The transaction looks again at the rights, as MaySee does with every page afterwards.
func (c *Console) seeAs(v *frame.Visit, in url.Values) (frame.Result, error) {
	by := v.Actor()
	by.Reason = strings.TrimSpace(in.Get("reason"))
	if by.Reason == "" || !person.IsText(by.Reason, person.MaxLine) {
		return frame.Result{}, &frame.Problem{Field: "reason", Key: "console.problem.reason"}
	}
	if !is(person.Active)(v) {
		return frame.Result{}, &frame.Problem{Key: "console.problem.state"}
	}
	return frame.Result{To: person.DefaultReturn}, c.Identity.Front.BeginSeeing(v.Context(), shownPerson(v).ID, by)
}

// MaySee tells whether the person of a session may look at the account of a person now.
func (c *Console) MaySee(u *config.Units, by *session.Current, personID string, p *person.Record) bool {
	role := c.frame.RoleOf(by.Person.PartitionName(), by.Person.Groups)
	return u.Features.AdminConsoleEnabled && c.frame.SeeAs != frame.Nobody && role >= max(c.frame.SeeAs, frame.Operator) && by.Session.Level >= c.frame.Level &&
		personID != by.Session.PersonID && c.frame.RoleOf(p.PartitionName(), p.Groups) < role
}

// SeenFrom is the page of the person.
func (c *Console) SeenFrom(personID string) string { return personPath(personID) }
