package console

import (
	"net/url"
	"strconv"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	chainPath    = "/events/chain"
	chainRefresh = 3 // seconds after which the page is loaded again while the seals are checked
)

// chainScreen says whether the events are as they were stored: the last check of their seals.
func (c *Console) chainScreen() *frame.Screen {
	return &frame.Screen{
		Name: "chain", Path: chainPath, Role: frame.Viewer, Show: c.showChain,
		Acts: []*frame.Act{{Name: "check-chain", Role: frame.Operator, Do: c.checkChain}},
	}
}

func (c *Console) checkChain(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, c.Manage.CheckChain(v.Context(), v.Actor())
}

func (c *Console) showChain(v *frame.Visit) (*page.Console, error) {
	var last manage.ChainCheck
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		last, err = c.Manage.LastChainCheck(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &page.Console{Title: page.Say("console.chain.title"), Lead: page.Say("console.chain.text"), Up: upToEvents(), Actions: v.Buttons()}
	if last.Waiting {
		out.Refresh, out.Lead = chainRefresh, page.Say("console.job.running.text", "n", chainRefresh)
	}
	if last.Ended.IsZero() {
		out.Parts = []page.ConsolePart{{Empty: v.Empty("console.chain.none", "check-chain")}}
		return out, nil
	}
	state := page.Cell{Text: page.Say("console.chain.sound"), Kind: "good"}
	switch {
	case last.Failed != "":
		state = page.Cell{Text: page.Say("console.backup.failed"), Kind: "bad", Note: last.Failed}
	case len(last.Problems) > 0:
		state = page.Cell{Text: page.Say("console.chain.broken"), Kind: "bad"}
	}
	fact := func(label string, cell page.Cell) page.ConsoleFact {
		return page.ConsoleFact{Label: label, Cells: []page.Cell{cell}}
	}
	t := &page.Table{Label: page.Say("console.chain.title"), Columns: []string{"console.column.chain", "console.column.server", "console.column.checked", "console.column.sealed", "console.column.events"}}
	for _, one := range last.Chains {
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{
			{Name: one.Chain}, frame.OrNone(one.Writer), {Name: strconv.FormatUint(one.Sealed, 10)}, timeCell(one.SealedAt), {Name: strconv.FormatUint(one.Events, 10)},
		}})
	}
	out.Parts = []page.ConsolePart{
		{Facts: []page.ConsoleFact{
			fact("console.column.state", state), fact("console.column.time", timeCell(last.Ended)), fact("console.column.server", frame.OrNone(last.Host)), fact("console.column.by", frame.OrNone(last.By)),
		}},
		{ID: "chains", Title: page.Say("console.chain.chains"), Text: page.Say("console.chain.chains.text"), Table: t},
	}
	for _, p := range last.Problems {
		out.Parts[0].Facts = append(out.Parts[0].Facts, fact("console.chain.problem", page.Cell{Name: p, Kind: "bad"}))
	}
	return out, nil
}
