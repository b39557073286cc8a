package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/pix"
)

func archiveCommand(o *options) *cobra.Command {
	group := &cobra.Command{
		Use: "archive", Short: "Verify an archive, and prove what it holds",
		Long: `Verify an archive of payments, and prove what it holds. These commands need the files alone: no
clearing house and no ledger. What the files say and how others check them is in
docs/archive.md. DIR is a folder, or a bucket: s3://BUCKET/PREFIX?region=REGION.`,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // no API is asked
	}
	group.AddCommand(
		&cobra.Command{
			Use: "verify DIR", Short: "Check that nothing is left out, added, changed or moved",
			Args: cobra.ExactArgs(1),
			Long: `Read a whole archive and check it: each row leads to the root of its segment, each segment to
the one before, each row is possible by itself, and the reserves that the rows add up to are
never below zero. Prints what is in it, and the reserves of the banks at the end of each day.
Exit codes: 0 it is whole, 1 it is not, or it cannot be read.`,
			Example: "  liquida archive verify archive",
			RunE: func(c *cobra.Command, arguments []string) error {
				return o.verifyArchive(c.Context(), arguments[0])
			},
		},
		&cobra.Command{
			Use: "proof ID DIR", Short: "Print proofs that a payment or a return stands in it",
			Args: cobra.ExactArgs(2),
			Long: `Print a proof for each row of a payment or a return, a line of JSON each: the row, and the
hashes that lead from it to the chain of its segment. Usually there is one; a payment that was
refused after its hold had expired has two. Exit codes: 0 found, 1 it is not in the archive, or
the archive is damaged.`,
			Example: "  liquida archive proof E1000000120261124120012345678901 archive > proof.json",
			RunE: func(c *cobra.Command, arguments []string) error {
				return o.prove(c.Context(), arguments[0], arguments[1])
			},
		},
		&cobra.Command{
			Use: "check FILE", Short: "Check a proof, without the archive", Args: cobra.ExactArgs(1),
			Long: `Check the proofs in a file, - for standard input, and print their rows. A proof says that the
row stands in the segment whose chain is printed: compare that chain with one that you trust,
such as the one in the archive, or in a copy of a manifest that you kept. Exit codes: 0 the proofs
are good, 1 they are not.`,
			Example: "  liquida archive check proof.json",
			RunE:    func(_ *cobra.Command, arguments []string) error { return o.checkProofs(arguments[0]) },
		},
	)

	return group
}

// verified is what verify says as JSON.
type verified struct {
	Segments        int           `json:"segments"`
	Rows            int           `json:"rows"`
	Settled         int           `json:"settled"`
	SettledCentavos int64         `json:"settled_centavos"`
	Rejected        int           `json:"rejected"`
	Refused         int           `json:"refused"`
	Expired         int           `json:"expired"`
	Records         int           `json:"records"`
	Accounts        int           `json:"accounts"`
	Bytes           int64         `json:"bytes"`
	Ledger          string        `json:"ledger"`
	To              time.Time     `json:"to"`
	Chain           string        `json:"chain"`
	Days            []verifiedDay `json:"days"`
}

type verifiedDay struct {
	Day      string             `json:"day"`
	Reserves map[pix.ISPB]int64 `json:"reserves_centavos"`
}

func (o *options) verifyArchive(ctx context.Context, place string) error {
	in, err := store.Open(ctx, place)
	if err != nil {
		return err
	}
	o.started = true
	var v verified
	told := time.Now()

	totals, err := archive.Verify(in, func(m archive.Manifest) {
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(os.Stderr, "verified up to %s\n", m.Name)
		}
	}, func(end archive.DayEnd) {
		v.Days = append(v.Days, verifiedDay{end.Day.String(), end.Reserves})
	})
	if err != nil {
		return fmt.Errorf("the archive in %s is not whole: %w", place, err)
	}
	v.Segments, v.Rows, v.Settled, v.SettledCentavos, v.Rejected, v.Refused, v.Expired = totals.Segments, totals.Rows,
		totals.Settled, totals.SettledCentavos, totals.Rejected, totals.Refused, totals.Expired
	v.Records, v.Accounts, v.Bytes, v.Ledger, v.To, v.Chain = totals.Records, totals.Accounts, totals.Bytes,
		totals.Last.Ledger, time.Unix(0, int64(totals.Last.To)).UTC(), totals.Last.Chain

	return o.show(v, func() {
		fmt.Fprintf(o.out, "whole: %d rows in %d segments of the ledger %s, up to %s\n", v.Rows, v.Segments, v.Ledger,
			v.To.Format(time.RFC3339))
		fmt.Fprintf(o.out, "payments and returns: %d settled (%s), %d rejected, %d refused, %d holds expired\n",
			v.Settled, reais(v.SettledCentavos), v.Rejected, v.Refused, v.Expired)
		payments := v.Settled + v.Rejected + v.Refused + v.Expired
		fmt.Fprintf(o.out, "%d bytes, %.1f for each of these\n", v.Bytes, float64(v.Bytes)/float64(max(1, payments)))
		fmt.Fprintf(o.out, "beside them: %d records, %d accounts\n", v.Records, v.Accounts)

		for _, day := range v.Days {
			fmt.Fprintf(o.out, "reserves at the end of %s, as far as the archive goes:\n", day.Day)

			for _, psp := range totals.Banks() {
				fmt.Fprintf(o.out, "  %s  %s\n", psp, reais(day.Reserves[psp]))
			}
		}
		fmt.Fprintf(o.out, "chain of the last segment: %s\n", v.Chain)
	})
}

func (o *options) prove(ctx context.Context, text, place string) error {
	id, err := pix.ParsePaymentOrReturnID(text)
	if err != nil {
		return err
	}

	in, err := store.Open(ctx, place)
	if err != nil {
		return err
	}
	o.started = true

	proofs, err := archive.Prove(in, id)
	if err != nil {
		return err
	}

	if len(proofs) == 0 {
		return fmt.Errorf("%s is not in the archive in %s: it has not ended, its minute is not over, or it never was",
			id, place)
	}

	for i := range proofs {
		line, err := json.Marshal(&proofs[i])
		if err != nil {
			return err
		}
		fmt.Fprintf(o.out, "%s\n", line)
	}

	return nil
}

func (o *options) checkProofs(name string) error {
	file := os.Stdin

	if name != "-" {
		var err error
		if file, err = os.Open(name); err != nil {
			return err
		}
		defer file.Close()
	}
	o.started = true

	proofs := archive.ReadProofs(file)
	for n := 1; ; n++ {
		proof, err := proofs()
		if errors.Is(err, io.EOF) && n > 1 {
			return nil
		}

		var row archive.Payment
		if err == nil {
			row, err = proof.Check()
		}

		if err != nil {
			return fmt.Errorf("proof %d of %s: %w", n, name, err)
		}

		err = o.show(row.Fields(), func() {
			fmt.Fprintf(o.out, "%s %s %s %s: %s from %s/%s/%s to %s/%s/%s, decided %s\n", row.Kind, row.ID, row.Status,
				row.Reason, reais(row.AmountCentavos),
				row.PayerISPB, row.PayerBranch, row.PayerNumber, row.PayeeISPB, row.PayeeBranch, row.PayeeNumber,
				time.Unix(0, row.DecidedAt).UTC().Format(time.RFC3339Nano))
			fmt.Fprintf(o.out, "  in the segment %s of the ledger %s, with the chain %s\n", proof.Segment.Name,
				proof.Segment.Ledger, proof.Segment.Chain)
		})
		if err != nil {
			return err
		}
	}
}
