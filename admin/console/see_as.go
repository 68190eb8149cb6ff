package console

import (
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// seeAsAct looks at the account of a person as the person sees it. It is off unless the operator has switched it on,
// and no one sees an account of equal or higher rank: owners do not see each other's either.
// (docs/decisions/console.md#seeing-an-account)
func (c *Console) seeAsAct() *layout.Act {
	return &layout.Act{
		Name: "see-as", Role: layout.Operator, When: inState(person.Active), Ask: askSeeAs, Do: c.seeAs,
		May: func(v *layout.Visit) error {
			switch {
			case c.frame.SeeAs == layout.Nobody || v.Role < c.frame.SeeAs:
				return layout.Denied("this role cannot look at accounts")
			case v.Rank >= v.Role:
				return layout.Denied("the other person is of equal or higher rank")
			}
			return nil
		},
	}
}

func askSeeAs(*layout.Visit) (layout.Question, error) {
	return layout.Question{
		Fill:   []any{"n", int(webflow.SeeingLasts.Minutes())},
		Fields: []web.Field{{Name: "reason", Required: true, MaxLength: person.MaxLine, Hint: "console.field.reason.hint"}},
	}, nil
}

// seeAs begins it. The transaction looks again at the rights, as MaySee does with every page afterwards.
func (c *Console) seeAs(v *layout.Visit, in url.Values) (layout.Result, error) {
	by := v.Actor()
	by.Reason = strings.TrimSpace(in.Get("reason"))
	if by.Reason == "" || !person.IsText(by.Reason, person.MaxLine) {
		return layout.Result{}, &layout.Problem{Field: "reason", Key: "console.problem.reason"}
	}
	if !inState(person.Active)(v) {
		return layout.Result{}, &layout.Problem{Key: "console.problem.state"}
	}
	return layout.Result{To: person.DefaultReturn}, c.Identity.Front.BeginSeeing(v.Context(), shownPerson(v).ID, by)
}

// MaySee reports whether the person of a session may look at the account of a person now.
func (c *Console) MaySee(u *settings.Units, by *session.Current, personID string, p *person.Record) bool {
	role := c.frame.RoleOf(by.Person.PartitionName(), by.Person.Groups)
	return u.Features.AdminConsoleEnabled && c.frame.SeeAs != layout.Nobody && role >= max(c.frame.SeeAs, layout.Operator) &&
		by.Session.Level >= c.frame.Level &&
		personID != by.Session.PersonID && c.frame.RoleOf(p.PartitionName(), p.Groups) < role
}

// SeenFrom is the page of the person.
func (c *Console) SeenFrom(personID string) string { return personPath(personID) }
