package clientstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Authorization details (RFC 9396): which client can ask for which. What they are is in package details. (docs/
// decisions/authorization.md#authorization-details)

const detailsParam = "authorization_details"

var (
	errDetailType = denial.New(denial.DetailsRefused,
		"the client may not ask for authorization details of this type: name it in authorization_details_types")
	errMore = denial.New(denial.DetailsRefused, "the authorization details are more than was granted")
)

// DetailsFor returns what a client asks for with the parameter authorization_details of f. Empty: nothing. May says
// whether it is allowed.
func (r *Registry) DetailsFor(f oauth.Form) (string, error) {
	text := f.Get(detailsParam)
	if text == "" {
		return "", nil
	}
	read, err := r.details.Read(text)
	if err != nil {
		return "", oauth.InvalidDetails(denial.New(denial.DetailsRefused, err.Error()), err.Error())
	}
	return read, nil
}

// NarrowDetails returns the authorization details of a token: those asked for, which must be within those granted, or
// all granted ones if none are asked for. (RFC 9396 6.1)
func (r *Registry) NarrowDetails(asked, granted string) (string, error) {
	if asked == "" {
		return granted, nil
	}
	if !rar.Covers(rar.Split(granted), asked) {
		return "", oauth.InvalidDetails(errMore, "authorization_details is more than was granted")
	}
	return asked, nil
}

// StillDetailed returns those of the details that the client is still allowed. What was taken from a client disappears
// from its earlier tokens too.
func (r *Registry) StillDetailed(c *client.Client, text string) string {
	return rar.Keep(text, func(name string) bool { return r.mayType(c, name) })
}

// DetailsLevel is the highest authentication level that one of the details demands. 0: any.
func (r *Registry) DetailsLevel(text string) int {
	if text == "" {
		return 0
	}
	return r.details.Level(rar.TypesOf(text))
}

// AsksAlways reports whether a person is asked about the details whatever they have allowed before.
func (r *Registry) AsksAlways(text string) bool {
	return text != "" && r.details.Always(rar.TypesOf(text))
}

// DescribeDetails returns what a person is shown of the details.
func (r *Registry) DescribeDetails(text string) []web.Detail { return r.details.Describe(text) }

// DetailTypes are the declared types, for the metadata.
func (r *Registry) DetailTypes() []string { return r.details.Names() }

// StrangerDetails are those of the types that clients can ask for which no operator has registered.
func (r *Registry) StrangerDetails(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !r.details.Open(name) })
}

// mayType reports whether a client can ask for details of a type.
func (r *Registry) mayType(c *client.Client, name string) bool {
	return r.details.Has(name) && slices.Contains(c.DetailTypes, name)
}

func (r *Registry) mayDetails(c *client.Client, a Permission) error {
	if a.Details == "" {
		return nil
	}
	names := rar.TypesOf(a.Details)
	if slices.ContainsFunc(names, func(name string) bool { return !r.mayType(c, name) }) {
		return oauth.InvalidDetails(errDetailType, "a type of authorization_details is unknown or not allowed")
	}
	if (a.Grant == client.GrantClientCredentials || a.Grant == client.GrantJWTBearer) && r.details.Level(names) > 0 {
		return oauth.InvalidDetails(nil, "a type of authorization_details needs a person")
	}
	return nil
}

// checkPlan refuses a client with a plan that no one has declared.
func (r *Registry) checkPlan(c *client.Client) error {
	if c.Plan == "" || slices.Contains(r.plans, c.Plan) {
		return nil
	}
	if len(r.plans) == 0 {
		return client.Invalidf("client %q: plan: there are no plans: write `plan %s { … }` in the Caddyfile", c.ID, c.Plan)
	}
	return client.Invalidf("client %q: plan: there is no plan %s: known are %s", c.ID, c.Plan, strings.Join(r.plans, ", "))
}

// checkGroups refuses a client with a group that does not exist: no one could use it.
func (r *Registry) checkGroups(ctx context.Context, c *client.Client) error {
	if r.deps.GroupExists == nil || len(c.Groups) == 0 {
		return nil
	}
	unknown := ""
	err := r.deps.Store.View(ctx, func(tx storage.Tx) error {
		unknown = ""
		for _, name := range c.Groups {
			if exists, err := r.deps.GroupExists(tx, name); err != nil {
				return err
			} else if !exists {
				unknown = name
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for the groups of client %s: %w", c.ID, err)
	}
	if unknown != "" {
		return client.Invalidf("client %q: groups: there is no group %q", c.ID, unknown)
	}
	return nil
}

// checkDetails refuses a client with a type that no one has declared.
func (r *Registry) checkDetails(c *client.Client) error {
	for _, name := range c.DetailTypes {
		if !r.details.Has(name) {
			return client.Invalidf("client %q: authorization_details_types: %q is not declared: add `authorization_details %s { … }`", c.ID,
				name, name)
		}
	}
	return nil
}
