package sites

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const policiesPath = "/policies"

func policyPath(name string) string { return layout.Root + policiesPath + "/" + url.PathEscape(name) }

// policiesScreen is the list of the policies of the Caddyfile and of those that are stored.
func (g *gateway) policiesScreen() *layout.Screen {
	return &layout.Screen{
		Name: "policies", Path: policiesPath, Icon: "lock", Role: layout.Viewer, Show: g.showPolicies,
		Acts: []*layout.Act{{Name: "add-policy", Role: layout.Operator, Ask: g.askPolicy, Do: g.addPolicy}},
	}
}

func (g *gateway) showPolicies(v *layout.Visit) (*web.Console, error) {
	list, err := g.Settings.Policies(v.Context())
	if err != nil {
		return nil, err
	}
	q, after, next := strings.ToLower(strings.TrimSpace(v.URL.Query().Get("q"))), v.URL.Query().Get("after"), ""
	t := &web.Table{
		Label:   web.Say("console.policies.title"),
		Columns: []string{"console.column.policy", "console.rules.title", "console.column.sites", "console.field.origin"},
	}
	slices.SortStableFunc(list, func(a, b settings.PolicyEntry) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		p := &list[i]
		if p.Overruled || p.Name <= after || !strings.Contains(strings.ToLower(p.Name), q) {
			continue
		}
		if len(t.Rows) == layout.Rows {
			next = list[i-1].Name
			break
		}
		t.Rows = append(t.Rows, web.TableRow{
			URL: policyPath(p.Name),
			Cells: []web.Cell{
				{Name: p.Name},
				{Name: strconv.Itoa(len(p.Policy.Deny) + len(p.Policy.Allow))},
				layout.OrNone(strings.Join(p.UsedBy, ", ")), sourceCell(p),
			},
		})
	}
	t.First, t.Next = v.Pages(next)
	out := &web.Console{Title: web.Say("console.policies.title"), Actions: v.Buttons(), Parts: []web.ConsolePart{{Table: t}}}
	out.Filter = &web.Filter{
		Action: v.Path(),
		Fields: []web.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: v.URL.Query().Get("q"), EnterKeyHint: "search"}},
	}
	if q != "" {
		out.Filter.Clear = v.Path()
	}
	if len(t.Rows) == 0 {
		out.Parts[0].Empty = v.Empty("console.policies.none", "add-policy")
	}
	return out, nil
}

// sourceCell says where a policy is written.
func sourceCell(p *settings.PolicyEntry) web.Cell {
	if p.Stored() {
		return web.Cell{Text: web.Say("console.policy.stored"), Kind: "plain"}
	}
	return web.Cell{Text: web.Say("console.origin.configuration"), Kind: "plain"}
}

// policyScreen is one policy. Those of the Caddyfile are shown and not changed.
func (g *gateway) policyScreen() *layout.Screen {
	isStored := func(v *layout.Visit) bool { return shownPolicy(v).Stored() }
	return &layout.Screen{
		Name: "policy", Path: policiesPath + "/{id}", Role: layout.Viewer, Find: g.findPolicy, Show: g.showPolicy,
		Acts: []*layout.Act{
			g.testAct(),
			{Name: "edit-policy", Role: layout.Operator, When: isStored, Ask: g.askPolicy, Do: g.editPolicy},
			{Name: "remove-policy", Role: layout.Operator, Danger: true, When: isStored, Ask: askRemovePolicy, Do: g.removePolicy},
		},
	}
}

// shownPolicy is the policy that the screen is about.
func shownPolicy(v *layout.Visit) *settings.PolicyEntry { return v.About.(*settings.PolicyEntry) }

func (g *gateway) findPolicy(v *layout.Visit) error {
	list, err := g.Settings.Policies(v.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(p settings.PolicyEntry) bool { return p.Name == v.PathValue("id") && !p.Overruled })
	if i < 0 {
		return webflow.NotFound()
	}
	v.About, v.Called = &list[i], list[i].Name
	return nil
}

func (g *gateway) showPolicy(v *layout.Visit) (*web.Console, error) {
	p := shownPolicy(v)
	out := &web.Console{
		Name: p.Name, Up: &web.Up{Label: web.Say("console.policies.title"), URL: layout.Root + policiesPath},
		Tags: []web.Cell{sourceCell(p)},
	}
	if !p.Stored() {
		out.Lead = web.Say("console.policy.declared")
	}
	users := web.ConsoleFact{Label: "console.column.sites"}
	sites, err := g.Sites()
	if err != nil {
		return nil, err
	}
	for _, user := range p.UsedBy {
		users.Cells = append(users.Cells, web.Cell{Name: user, Code: true, URL: PathOfUser(user, sites)})
	}
	if len(users.Cells) == 0 {
		users.Cells = []web.Cell{{Text: web.Say("console.policy.unused")}}
	}
	facts := []web.ConsoleFact{users}
	if trials := trialsOf(p.Name, sites); len(trials.Cells) > 0 {
		facts = append(facts, trials)
	}
	if p.Place != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.origin", Cells: []web.Cell{{Name: p.Place, Code: true}}})
	}
	if len(p.Policy.Public) > 0 {
		open := web.ConsoleFact{Label: "console.field.open"}
		for _, path := range p.Policy.Public {
			open.Cells = append(open.Cells, web.Cell{Name: path, Code: true})
		}
		facts = append(facts, open)
	}
	out.Actions, out.Parts = append(v.Buttons(), waysOn("")...), []web.ConsolePart{{Facts: facts}}
	rules := g.Rules(p.Name) // with their places
	if p.Stored() {
		rules = rulesOf(p)
	}
	if len(rules) > 0 {
		hits, err := g.hits(v, rules)
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts,
			web.ConsolePart{
				ID: "rules", Title: web.Say("console.rules.title"), Text: web.Say("console.policy.order"), Choices: v.Periods(),
				Table: ruleTable(rules, hits),
			})
	}
	if twin, err := g.twin(v, p); err != nil {
		return nil, err
	} else if twin != nil {
		out.Parts = append(out.Parts, twinPart(p, twin))
	}
	if p.Stored() && len(p.UsedBy) == 0 {
		out.Parts = append(out.Parts, web.ConsolePart{
			ID: "shadow", Title: web.Say("console.policy.try"), Text: web.Say("console.policy.try.text"),
			Source: "protect {\n\tshadow {\n\t\tpolicy " + p.Name + "\n\t}\n}",
		})
	}
	if text := g.rulesText(&p.Policy); !strings.HasPrefix(text, "{") {
		text = "\t" + strings.ReplaceAll(text, "\n", "\n\t")
		out.Parts = append(out.Parts, web.ConsolePart{
			ID: "caddyfile", Title: web.Say("console.client.source"), Source: "policy " + p.Name + " {\n" + text + "\n}",
		})
	}
	out.Parts = append(out.Parts,
		web.ConsolePart{ID: "json", Title: web.Say("console.policy.json"), Text: web.Say("console.policy.json.text"), Source: textOf(p.Policy)})
	return out, nil
}

// twin is the stored policy of the same name as one of the Caddyfile, which counts for nothing, or nil.
func (g *gateway) twin(v *layout.Visit, p *settings.PolicyEntry) (*settings.PolicyEntry, error) {
	if p.Stored() {
		return nil, nil
	}
	list, err := g.Settings.Policies(v.Context())
	i := slices.IndexFunc(list, func(o settings.PolicyEntry) bool { return o.Name == p.Name && o.Overruled })
	if err != nil || i < 0 {
		return nil, err
	}
	return &list[i], nil
}

// twinPart says how a stored policy differs from that of the Caddyfile, which counts.
func twinPart(p, twin *settings.PolicyEntry) web.ConsolePart {
	part := web.ConsolePart{ID: "overruled", Title: web.Say("console.policy.overruled"), Text: web.Say("console.policy.overruled.text")}
	if lines := layout.Diff(textOf(p.Policy), textOf(twin.Policy)); len(lines) > 0 {
		part.Source = strings.Join(lines, "\n")
	} else {
		part.Text = web.Say("console.policy.overruled.same")
	}
	return part
}

// PathOfUser is the page of the site that names a policy, in the words of settings.PolicyEntry, or "".
func PathOfUser(user string, sites []Site) string {
	name, _, _ := strings.Cut(user, " (")
	if u, err := url.Parse(name); err == nil && u.Host != "" {
		name = u.Host
	}
	for i := range sites {
		if sites[i].ID == name || slices.Contains(sites[i].hosts(), name) {
			return SitePath(sites[i].ID)
		}
	}
	return ""
}

// trialsOf leads to the sites that try a policy and do not enforce it, where it is said what it would change.
func trialsOf(name string, sites []Site) web.ConsoleFact {
	out := web.ConsoleFact{Label: "console.policy.tried"}
	for i := range sites {
		if slices.ContainsFunc(sites[i].Gates, func(g Gate) bool { return g.Trial != nil && slices.Contains(g.Trial.Policies, name) }) {
			out.Cells = append(out.Cells, web.Cell{Name: sites[i].ID, URL: SitePath(sites[i].ID)})
		}
	}
	return out
}

// rulesOf are the rules of a stored policy, which are named by their place in its JSON.
func rulesOf(p *settings.PolicyEntry) (out []Rule) {
	for i, r := range slices.Concat(p.Policy.Deny, p.Policy.Allow) {
		rule := Rule{Kind: "deny", Name: r.Name, Place: fmt.Sprintf("deny[%d]", i)}
		if n := i - len(p.Policy.Deny); n >= 0 {
			rule.Kind, rule.Place = "allow", fmt.Sprintf("allow[%d]", n)
		}
		rule.Counted = stats.RuleName("policy "+p.Name, rule.Kind, r.Name, "policies."+p.Name+"."+rule.Place)
		if len(r.Match) > 0 {
			rule.Asks = append(rule.Asks, Words("match", oneLine(r.Match))...)
		}
		if need := oneLine(r.Need); need != "{}" {
			rule.Asks = append(rule.Asks, Words("need", need)...)
		}
		for _, when := range r.When {
			rule.Asks = append(rule.Asks, "when "+when)
		}
		out = append(out, rule)
	}
	return out
}

// Words returns what a rule matches or needs, which is JSON, in the words of the Caddyfile: one for each member. What
// has no such words stays JSON.
func Words(kind, text string) []string {
	asIs := []string{kind + " " + text}
	var set map[string]any
	if json.Unmarshal([]byte(text), &set) != nil {
		var sets []map[string]any // of which one has to fit
		if json.Unmarshal([]byte(text), &sets) != nil || len(sets) != 1 {
			return asIs
		}
		set = sets[0]
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		words := []string{kind, name}
		values, several := set[name].([]any)
		if !several {
			values = []any{set[name]}
		}
		for _, value := range values {
			switch value.(type) {
			case string, float64:
				words = append(words, fmt.Sprint(value))
			default:
				return asIs
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func oneLine(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

// textOf is a policy as it is edited.
func textOf(p settings.Policy) string {
	p.Deny, p.Allow = slices.Clone(p.Deny), slices.Clone(p.Allow)
	for _, rules := range [][]settings.PolicyRule{p.Deny, p.Allow} {
		for i := range rules {
			if oneLine(rules[i].Need) == "{}" {
				rules[i].Need = settings.PolicyNeed{}
			}
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

// newPolicy is the initial text of a new policy, without and with the syntax of the Caddyfile.
const (
	newPolicy = "{\n  \"allow\": [\n    {\n      \"name\": \"staff\",\n      \"need\": {\"groups\": [\"staff\"]}\n    }\n  ]\n}"
	newRules  = "allow {\n\tname staff\n\tneed groups staff\n}\n"
)

// rulesText is a policy as it is edited: in the syntax of the Caddyfile, or JSON if it has more.
func (g *gateway) rulesText(p *settings.Policy) string {
	if g.WritePolicy != nil {
		if text := strings.TrimSpace(g.WritePolicy(p)); text != "" {
			return text
		}
	}
	return textOf(*p)
}

// askPolicy asks for the rules of a policy, and for cases to test them. Once they have been sent, the page shows what
// would change, and what the cases get.
func (g *gateway) askPolicy(v *layout.Visit) (q layout.Question, err error) {
	entry, isOld := v.About.(*settings.PolicyEntry)
	before, text := "", newPolicy
	switch {
	case isOld:
		before = g.rulesText(&entry.Policy)
		text, q.Submit, q.Hidden = before, "console.save", []web.Hidden{{Name: "before", Value: printOf(entry.Policy)}}
	default:
		if entry = new(settings.PolicyEntry); g.ReadPolicy != nil {
			text = newRules
		}
		q.Fields = append(q.Fields, web.Field{
			Name: "policy", Label: "console.column.policy", Hint: "console.policy.name.hint",
			Required: true, MaxLength: 64,
		})
	}
	sites, err := g.Sites()
	if err != nil {
		return q, err
	}
	q.Fields = append(q.Fields, rulesField("console.policy.rules.hint", text), web.Field{
		Name: "cases", Type: "textarea", Label: "console.test.cases", Hint: "console.test.cases.hint", Value: exampleCases(entry, sites),
	})
	if isOld && enforced(entry, sites) {
		q.Fields = append(q.Fields, web.Field{
			Name: "apply", Type: "select", Label: "console.policy.apply", Hint: "console.policy.apply.hint",
			HintFill: []any{"name", trialName(entry.Name)},
			Options:  []web.Option{{Value: applyTrial, Label: "console.policy.apply.try"}, {Value: applyNow, Label: "console.policy.apply.now"}},
		})
	}
	sent := v.PostForm.Get("rules")
	if sent == "" {
		return q, nil
	}
	if p, _, wrong := g.parsePolicy(sent); wrong == nil {
		if lines := layout.Diff(before, g.rulesText(&p)); len(lines) > 0 {
			q.Parts = []web.ConsolePart{{ID: "changes", Title: web.Say("console.policy.changes"), Source: strings.Join(lines, "\n")}}
		}
		if part, err := g.tried(v, entry, &p); err == nil && part != nil {
			q.Parts = append(q.Parts, *part)
		}
	}
	q.Fields = append(q.Fields, web.Field{Name: "confirm", Type: "checkbox", Label: "console.policy.confirm"})
	return q, nil
}

// The values of the field that says where the new rules of a policy are stored that a site enforces.
const (
	applyTrial = "try"
	applyNow   = "now"
)

// trialName is the name of the copy of a policy that is tried in the shadow before it is enforced.
func trialName(name string) string { return name + "-next" }

// enforced reports whether a site decides by a stored policy, and does not only try it.
func enforced(p *settings.PolicyEntry, sites []Site) bool {
	enforces := func(g Gate) bool { return slices.Contains(g.Policies, p.Name) }
	return p.Stored() && len(p.UsedBy) > 0 && (len(trialsOf(p.Name, sites).Cells) == 0 ||
		slices.ContainsFunc(sites, func(s Site) bool { return slices.ContainsFunc(s.Gates, enforces) }))
}

// rulesField is the field of the rules of a policy.
func rulesField(hint, text string) web.Field {
	return web.Field{Name: "rules", Type: "textarea", Label: "console.policy.rules", Hint: hint, Value: text, Required: true}
}

// tried returns what the cases of the form get by a policy that is not stored yet, and by the one of before. nil: there
// are no cases. The error is a problem of the cases.
func (g *gateway) tried(v *layout.Visit, entry *settings.PolicyEntry, p *settings.Policy) (*web.ConsolePart, error) {
	cases := v.PostForm.Get("cases")
	if strings.TrimSpace(cases) == "" {
		return nil, nil
	}
	next, err := g.TestPolicy(v.Request.Request, cmp.Or(entry.Name, sampleName), p, cases)
	if err != nil {
		return nil, problemOfTest(err)
	}
	if !entry.Stored() || textOf(entry.Policy) == textOf(*p) {
		part := testedPart(next, nil)
		return &part, nil
	}
	now, err := g.TestPolicy(v.Request.Request, entry.Name, &entry.Policy, cases)
	if err != nil {
		return nil, problemOfTest(err)
	}
	part := testedPart(now, next)
	return &part, nil
}

// parsePolicy reads the rules of a form: in the syntax of the Caddyfile, or JSON. lines are those on which the rules
// begin.
func (g *gateway) parsePolicy(text string) (p settings.Policy, lines []int, wrong *layout.Problem) {
	if g.ReadPolicy == nil || strings.HasPrefix(strings.TrimSpace(text), "{") {
		if err := jsonapi.DecodeBytes([]byte(text), &p); err != nil {
			return p, nil, problemOf(err, p, nil)
		}
		return p, nil, nil
	}
	p, lines, err := g.ReadPolicy(strings.ReplaceAll(text, "\r\n", "\n"))
	if bad := new(Wrong); errors.As(err, &bad) {
		return p, nil, problemAt(bad.Line, layout.Words(bad.Cause, bad.Reason))
	}
	if err != nil {
		return p, nil, problemAt(0, layout.Words(err, err.Error()))
	}
	return p, lines, nil
}

// problemAt returns a problem on a line of the rules. 0: on no line in particular
func problemAt(line int, reason any) *layout.Problem {
	if line == 0 {
		return &layout.Problem{Field: "rules", Key: "console.policy.problem", Fill: []any{"reason", reason}}
	}
	return &layout.Problem{Field: "rules", Key: "console.policy.line", Fill: []any{"line", line, "reason", reason}}
}

// sampleName is a valid name of a policy.
const sampleName = "policy"

// ruleAt matches the place of a rule in a problem of the settings.
var ruleAt = regexp.MustCompile(`^policies\.[^.]*\.(deny|allow)\[(\d+)\]`)

// policyAt matches the place of a policy in a problem of the settings.
var policyAt = regexp.MustCompile(`^policies\.[^.]*\.?`)

// problemOf returns the problem of a policy whose rules begin on lines, or nil for a failure.
func problemOf(err error, p settings.Policy, lines []int) *layout.Problem {
	e := new(jsonapi.Error)
	if !errors.As(err, &e) || e.Status >= 500 {
		return nil
	}
	list, _ := e.Details.([]jsonapi.Problem)
	if len(list) > 0 {
		if m := ruleAt.FindStringSubmatch(list[0].Path); m != nil {
			n, _ := strconv.Atoi(m[2])
			if m[1] == "allow" {
				n += len(p.Deny)
			}
			if n < len(lines) {
				return problemAt(lines[n], layout.WordsOf(&list[0]))
			}
		}
	}
	if len(list) > 0 && list[0].Code != "" {
		reason := layout.WordsOf(&list[0])
		if at := policyAt.ReplaceAllString(list[0].Path, ""); at != "" {
			reason = web.Say("console.problem.setting_at", "member", at, "reason", reason)
		}
		return problemAt(0, reason)
	}
	return problemAt(0, layout.Words(e.Words, e.Message))
}

func (g *gateway) addPolicy(v *layout.Visit, in url.Values) (layout.Result, error) {
	name := strings.TrimSpace(in.Get("policy"))
	list, err := g.Settings.Policies(v.Context())
	if err != nil {
		return layout.Result{}, err
	}
	if slices.ContainsFunc(list, func(p settings.PolicyEntry) bool { return p.Name == name }) {
		return layout.Result{}, &layout.Problem{Field: "policy", Key: "console.policy.taken"}
	}
	return g.storePolicy(v, in, name, settings.Policy{}, true)
}

// editPolicy stores new rules. Those of a policy that a site enforces are stored as a copy, to be tried in the shadow,
// unless the form says that they hold now.
func (g *gateway) editPolicy(v *layout.Visit, in url.Values) (layout.Result, error) {
	p := shownPolicy(v)
	if in.Get("before") != printOf(p.Policy) { // since the page was opened
		return layout.Result{}, &layout.Problem{Key: "console.problem.changed"}
	}
	sites, err := g.Sites()
	if err != nil {
		return layout.Result{}, err
	}
	if !enforced(p, sites) || in.Get("apply") == applyNow {
		return g.storePolicy(v, in, p.Name, p.Policy, false)
	}
	name := trialName(p.Name)
	list, err := g.Settings.Policies(v.Context())
	if err != nil {
		return layout.Result{}, err
	}
	if slices.ContainsFunc(list, func(p settings.PolicyEntry) bool { return p.Name == name }) {
		return layout.Result{}, &layout.Problem{Field: "apply", Key: "console.policy.apply.taken", Fill: []any{"name", name}}
	}
	return g.storePolicy(v, in, name, settings.Policy{}, true)
}

// storePolicy stores a policy that was before until now, once the changes have been confirmed.
func (g *gateway) storePolicy(v *layout.Visit, in url.Values, name string, before settings.Policy, isNew bool) (layout.Result, error) {
	p, lines, wrong := g.parsePolicy(in.Get("rules"))
	if wrong != nil {
		return layout.Result{}, wrong
	}
	if err := g.Settings.CheckPolicy(v.Context(), name, p); err != nil {
		if wrong := problemOf(err, p, lines); wrong != nil {
			if isNew && g.Settings.CheckPolicy(v.Context(), sampleName, p) == nil { // so it is the name
				wrong.Field = "policy"
			}
			return layout.Result{}, wrong
		}
		return layout.Result{}, err
	}
	if _, err := g.tried(v, &settings.PolicyEntry{Name: name, Policy: before}, &p); err != nil {
		return layout.Result{}, err
	}
	if !in.Has("confirm") {
		return layout.Result{}, &layout.Problem{Field: "confirm", Key: "console.policy.look"}
	}
	_, err := g.Settings.Edit(storage.Guarded(v.Context(), v.Recheck), v.Actor(), func(u *settings.Units) error {
		now, there := u.Policies[name]
		if there == isNew || textOf(now) != textOf(before) {
			return &layout.Problem{Key: "console.problem.changed"}
		}
		u.Policies[name] = p
		return nil
	})
	if wrong := problemOf(err, p, lines); wrong != nil {
		return layout.Result{}, wrong
	}
	return layout.Result{To: policyPath(name)}, err
}

func askRemovePolicy(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: []any{"n", len(shownPolicy(v).Policy.Deny) + len(shownPolicy(v).Policy.Allow)}}, nil
}

func (g *gateway) removePolicy(v *layout.Visit, _ url.Values) (layout.Result, error) {
	name := shownPolicy(v).Name
	_, err := g.Settings.Edit(storage.Guarded(v.Context(), v.Recheck), v.Actor(), func(u *settings.Units) error {
		if _, there := u.Policies[name]; !there {
			return &layout.Problem{Key: "console.problem.gone"}
		}
		delete(u.Policies, name)
		return nil
	})
	if wrong := problemOf(err, settings.Policy{}, nil); wrong != nil {
		wrong.Field = ""
		return layout.Result{}, wrong
	}
	return layout.Result{To: layout.Root + policiesPath}, err
}

// printOf tells apart two versions of a policy.
func printOf(p settings.Policy) string {
	sum := sha256.Sum256([]byte(textOf(p)))
	return hex.EncodeToString(sum[:])
}
