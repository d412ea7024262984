package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// pager reads the pages of a list. A server looks at so much for one answer
// only, and may give fewer rows than asked for: more answers make the page full.
type pager struct {
	limit int
	after string
	all   bool
	flag  string // that begins the next page, e.g. after
}

func (p *pager) define(cmd *cobra.Command, limit int, flag, usage string) {
	p.flag = flag
	cmd.Flags().IntVarP(&p.limit, "limit", "n", limit, "rows on a page")
	cmd.Flags().StringVar(&p.after, flag, "", usage)
	cmd.Flags().BoolVar(&p.all, "all", false, "walk through all pages")
}

// readPages asks for pages until one is full, or, with --all, until there are no
// more. As JSON lines rows are printed as they come; otherwise they are returned.
// next is where the next page begins. ask gets a connection that stays open.
func readPages[T any](ctx context.Context, c *cli, p *pager, ask func(s *server, after string, limit int) ([]T, string, error)) (rows []T, next string, err error) {
	if err := checkLimit(p.limit); err != nil {
		return nil, "", err
	}
	s, err := c.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	defer s.close()
	rows, next = []T{}, p.after
	for wanted := p.limit; ; {
		var page []T
		if page, next, err = ask(s, next, min(wanted, p.limit)); err != nil {
			return nil, "", c.hint(err)
		}
		if c.format != jsonl {
			rows = append(rows, page...)
		} else if err := printLines(c, page); err != nil {
			return nil, "", err
		}
		if !p.all {
			wanted -= len(page)
		}
		if next == "" || wanted <= 0 {
			break
		}
	}
	if next != "" && c.format.or(table) != asJSON {
		defer fmt.Fprintf(c.err, "there are more: --%s %s\n", p.flag, next)
	}
	return rows, next, nil
}

func printLines[T any](c *cli, rows []T) error {
	for _, r := range rows {
		if err := printLine(c.out, r); err != nil {
			return err
		}
	}
	return nil
}

// showPage prints what readPages has read, unless that was printed as it came.
func (c *cli) showPage(whole any, asTable func(t *grid)) error {
	if c.format == jsonl {
		return nil
	}
	return c.show(whole, asTable)
}
