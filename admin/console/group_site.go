package console

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// openSiteAct lets the members of a group in at the sites of a stored policy.
func (c *Console) openSiteAct() *layout.Act {
	return &layout.Act{Name: "open-site", Role: layout.Operator, Ask: c.askOpenSite, Do: c.openSite}
}

// opening are the stored policies that sites use and that let some callers in. Without such a rule the other conditions
// of the site decide, and one for a group would refuse everyone else.
func (c *Console) opening(v *layout.Visit) ([]settings.PolicyEntry, error) {
	list, err := c.Gateway.Settings.Policies(v.Context())
	return slices.DeleteFunc(list, func(p settings.PolicyEntry) bool {
		return !p.Stored() || p.Overruled || len(p.UsedBy) == 0 || len(p.Policy.Allow) == 0
	}), err
}

func (c *Console) askOpenSite(v *layout.Visit) (layout.Question, error) {
	list, err := c.opening(v)
	if err != nil {
		return layout.Question{}, err
	}
	if len(list) == 0 {
		return layout.Question{Off: &web.Empty{Text: web.Say("console.group.sites.none"), Next: &web.Action{
			Label: "console.policies.title", URL: layout.Root + "/policies",
		}}}, nil
	}
	return layout.Question{Fields: []web.Field{openedField(list, false)}}, nil
}

// openedField is the choice of a policy. A group that is made need not open a site.
func openedField(list []settings.PolicyEntry, none bool) web.Field {
	choice := web.Field{Name: "policy", Type: "select", Label: "console.field.opened", Hint: "console.field.opened.hint"}
	if none {
		choice.Options = []web.Option{{Label: layout.WordLabel("")}}
	}
	for i := range list {
		var sites []string
		for _, use := range list[i].UsedBy {
			site, _, _ := strings.Cut(use, " (") // and its place, which a choice has no room for
			sites = append(sites, site)
		}
		choice.Options = append(choice.Options, web.Option{
			Value: list[i].Name, Label: strings.Join(slices.Compact(sites), ", ") + " — " + list[i].Name,
		})
	}
	return choice
}

func (c *Console) openSite(v *layout.Visit, in url.Values) (layout.Result, error) {
	return layout.Result{}, c.letIn(v, in.Get("policy"), shownGroup(v).Name)
}

// letIn adds a rule to a policy that lets a group in, unless there is one.
func (c *Console) letIn(v *layout.Visit, name, group string) error {
	list, err := c.opening(v)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(p settings.PolicyEntry) bool { return p.Name == name }) {
		return &layout.Problem{Field: "policy", Key: "console.problem.gone"}
	}
	_, err = c.Gateway.Settings.Edit(storage.Guarded(v.Context(), v.Recheck), v.Actor(), func(u *settings.Units) error {
		p, there := u.Policies[name]
		if !there || len(p.Allow) == 0 {
			return &layout.Problem{Field: "policy", Key: "console.problem.changed"}
		}
		rule := settings.PolicyRule{Name: group, Need: settings.PolicyNeed{Groups: []string{group}}}
		for _, r := range p.Allow {
			if rule.Name = r.Name; reflect.DeepEqual(r, rule) {
				return nil
			}
		}
		rule.Name = group
		if slices.ContainsFunc(p.Allow, func(r settings.PolicyRule) bool { return r.Name == rule.Name }) || len(rule.Name) > maxRuleName {
			rule.Name = ""
		}
		p.Allow = append(slices.Clone(p.Allow), rule)
		u.Policies[name] = p
		return nil
	})
	return err
}

const maxRuleName = 64 // bytes
