package console

import (
	"net/url"
	"strconv"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	chainPath    = "/events/chain"
	chainRefresh = 3 // seconds after which the page is loaded again while the seals are checked
)

// chainScreen says whether the events are as they were stored: the last check of their seals.
func (c *Console) chainScreen() *layout.Screen {
	return &layout.Screen{
		Name: "chain", Path: chainPath, Role: layout.Viewer, Show: c.showChain,
		Acts: []*layout.Act{{Name: "check-chain", Role: layout.Operator, Do: c.checkChain}},
	}
}

func (c *Console) checkChain(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Manage.CheckChain(v.Context(), v.Actor())
}

func (c *Console) showChain(v *layout.Visit) (*web.Console, error) {
	var last admin.ChainCheck
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		last, err = c.Manage.LastChainCheck(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &web.Console{Title: web.Say("console.chain.title"), Lead: web.Say("console.chain.text"), Up: upToEvents(), Actions: v.Buttons()}
	if last.Waiting {
		out.Refresh, out.Lead = chainRefresh, web.Say("console.job.running.text", "n", chainRefresh)
	}
	if last.Ended.IsZero() {
		out.Parts = []web.ConsolePart{{Empty: v.Empty("console.chain.none", "check-chain")}}
		return out, nil
	}
	state := web.Cell{Text: web.Say("console.chain.sound"), Kind: "good"}
	switch {
	case last.Failed != "":
		state = web.Cell{Text: web.Say("console.backup.failed"), Kind: "bad", Note: last.Failed}
	case len(last.Problems) > 0:
		state = web.Cell{Text: web.Say("console.chain.broken"), Kind: "bad"}
	}
	fact := func(label string, cell web.Cell) web.ConsoleFact {
		return web.ConsoleFact{Label: label, Cells: []web.Cell{cell}}
	}
	t := &web.Table{
		Label: web.Say("console.chain.title"),
		Columns: []string{
			"console.column.chain", "console.column.server", "console.column.checked", "console.column.sealed",
			"console.column.events",
		},
	}
	for _, one := range last.Chains {
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			{Name: one.Chain},
			layout.OrNone(one.Writer),
			{Name: strconv.FormatUint(one.Sealed, 10)},
			timeCell(one.SealedAt),
			{Name: strconv.FormatUint(one.Events, 10)},
		}})
	}
	out.Parts = []web.ConsolePart{
		{Facts: []web.ConsoleFact{
			fact("console.column.state", state), fact("console.column.time", timeCell(last.Ended)),
			fact("console.column.server", layout.OrNone(last.Host)), fact("console.column.by", layout.OrNone(last.By)),
		}},
		{ID: "chains", Title: web.Say("console.chain.chains"), Text: web.Say("console.chain.chains.text"), Table: t},
	}
	for _, p := range last.Problems {
		out.Parts[0].Facts = append(out.Parts[0].Facts, fact("console.chain.problem", web.Cell{Name: p, Kind: "bad"}))
	}
	return out, nil
}
