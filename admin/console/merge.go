package console

import (
	"errors"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/person/merge"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// mergeAct lets the account of the page take over another one. The first form asks which, the second one says what goes
// over, what cannot, and what ends.
func (c *Console) mergeAct() *layout.Act {
	return &layout.Act{Name: "merge", Role: layout.Operator, Danger: true, When: inState(person.Active), Ask: askMerge, Do: c.merge}
}

func askMerge(*layout.Visit) (layout.Question, error) {
	return layout.Question{
		Submit: "console.merge.look", Looks: true,
		Fields: []web.Field{{Name: "other", Required: true, MaxLength: person.MaxUsername, Hint: "console.field.member.hint"}},
	}, nil
}

// mergeProblems are the messages about accounts that cannot be merged.
var mergeProblems = map[error]string{
	merge.ErrSame: "console.problem.same_account", merge.ErrPartition: "console.problem.partition",
	merge.ErrState: "console.problem.state",
}

func mergeProblem(err error) error {
	for known, key := range mergeProblems {
		if errors.Is(err, known) {
			return &layout.Problem{Field: "other", Key: key}
		}
	}
	return err
}

// mayTakeOver refuses an account that the person of the visit could not remove, and one whose role would go over by
// someone who gives none.
func (c *Console) mayTakeOver(v *layout.Visit, partition string, groups []string) error {
	switch rank := c.frame.RoleOf(partition, groups); {
	case rank >= v.Role:
		return layout.Denied("the other person is of equal or higher rank")
	case rank != layout.Nobody && v.Role != layout.Owner:
		return layout.Denied("the merge would transfer the role")
	}
	return nil
}

func (c *Console) merge(v *layout.Visit, in url.Values) (layout.Result, error) {
	other, err := c.personOf(v, strings.TrimSpace(in.Get("other")))
	if errors.Is(err, person.ErrNoPerson) {
		return layout.Result{}, &layout.Problem{Field: "other", Key: "console.problem.no_person"}
	}
	if err != nil {
		return layout.Result{}, err
	}
	if other.ID == v.Me() {
		return layout.Result{}, &layout.Problem{Field: "other", Key: "console.problem.self"}
	}
	if err := c.mayTakeOver(v, other.Partition, other.Groups); err != nil {
		return layout.Result{}, err
	}
	if in.Get("confirmed") != other.ID {
		q, err := c.askTakeOver(v, other)
		return layout.Result{Ask: &q}, mergeProblem(err)
	}
	m := merge.Service{Persons: c.Identity.Person, Store: c.Store, Events: c.Manage.Recorder}
	return layout.Result{}, mergeProblem(m.Merge(v.Context(), shownPerson(v).ID, other.ID, v.Actor(),
		func(tx storage.Tx, keep, gone *person.Details) error {
			if err := v.Recheck(tx); err != nil {
				return err
			}
			if !v.Outranks(c.frame.RoleOf(keep.Partition, keep.Groups)) {
				return layout.Denied("the other person is of equal or higher rank")
			}
			return c.mayTakeOver(v, gone.Partition, gone.Groups)
		}))
}

// askTakeOver says what goes over and what ends.
func (c *Console) askTakeOver(v *layout.Visit, other person.Person) (q layout.Question, err error) {
	var plan merge.Plan
	var d admin.PersonDetails
	err = c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if plan, err = merge.Look(tx, c.Identity.Person, shownPerson(v).ID, other.ID); err == nil {
			d, err = c.Manage.Details(tx, other, v.Now)
		}
		return err
	})
	if err != nil {
		return q, err
	}
	list := func(label string, values []string) {
		q.Facts = append(q.Facts, web.ConsoleFact{Label: label, Cells: []web.Cell{layout.OrNone(strings.Join(values, ", "))}})
	}
	named := func(ids []string) (out []string) {
		for _, id := range ids {
			out = append(out, c.Identity.Federation.ProviderName(id))
		}
		return out
	}
	count := func(label string, n int) {
		q.Facts = append(q.Facts, web.ConsoleFact{Label: label, Cells: []web.Cell{{Text: web.Say("console.count", "n", n)}}})
	}
	q.Facts = []web.ConsoleFact{{
		Label: "console.merge.removed",
		Cells: []web.Cell{{Name: admin.Typed(other), URL: personPath(other.ID)}, {Name: other.Name}},
	}}
	list("console.merge.providers", named(plan.Providers))
	list("console.groups.title", plan.Groups)
	list("console.merge.addresses", append(plan.Addresses, plan.Numbers...))
	if len(plan.Left) > 0 {
		q.Facts = append(q.Facts, web.ConsoleFact{
			Label: "console.merge.left",
			Cells: []web.Cell{{Name: strings.Join(named(plan.Left), ", "), Kind: "warn"}},
		})
	}
	count("console.fact.sessions", len(d.Sessions))
	count("console.fact.tokens", len(d.Tokens)+len(d.AppPasswords))
	q.Hidden = []web.Hidden{{Name: "other", Value: other.ID}, {Name: "confirmed", Value: other.ID}}
	return q, nil
}
