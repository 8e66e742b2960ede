package operate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/serving/access"
)

const defaultKeys = "gearshift.keys"

func NewKeyCommand() *cobra.Command {
	var file string
	c := cli.Group("key", "Make, list and remove the API keys of those who may ask",
		newKeyNew(&file), newKeyList(&file), newKeyRemove(&file))
	c.PersistentFlags().StringVar(&file, "keys", defaultKeys, "`file` that holds the keys' hashes: the scenario's serving.keys_file")
	return c
}

func newKeyNew(file *string) *cobra.Command {
	var l access.Limits
	var g access.Grants
	c := &cobra.Command{
		Use: "new NAME", Short: "Make a key, and print it: this once, since only its hash is kept",
		Long: `Make a key for NAME, and print it. Only its hash is added to the keys file, so that it
cannot be printed again. A server that runs takes the file's changes by itself.`,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			secret, err := newKey(*file, args[0], l, g)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "the key of %s, shown this once:\n", args[0])
			if _, err := fmt.Fprintln(c.OutOrStdout(), secret); err != nil {
				// The key was not shown, and cannot be: its name is free again.
				return errors.Join(fmt.Errorf("cannot show the key, so that it is not kept: %w", err), removeKey(*file, args[0]))
			}
			return nil
		},
	}
	c.Flags().Float64Var(&l.Rate, "rate", 0, "requests per second (default: no limit)")
	c.Flags().IntVar(&l.Burst, "burst", 0, "requests at once after a pause (default: one second's worth)")
	c.Flags().IntVar(&l.Concurrency, "concurrency", 0, "requests at the same time, leases included (default: no limit)")
	c.Flags().Int64Var(&l.TokensPerDay, "tokens-per-day", 0, "tokens of prompts and answers in a day of UTC (default: no limit)")
	c.Flags().Int64Var(&l.TokensPerMonth, "tokens-per-month", 0, "tokens of prompts and answers in a month (default: no limit)")
	c.Flags().StringSliceVar(&g.Classes, "classes", nil, "`classes` of requests that it may send; a request that names none gets the scenario's first, or else the first of these (default: all)")
	c.Flags().StringSliceVar(&g.Models, "models", nil, "`models` that may answer it, also where the policy chooses (default: all)")
	return c
}

func newKeyList(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the keys' names and limits", Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := readKeysFile(*file)
			if err != nil {
				return err
			}
			return listKeys(c.OutOrStdout(), list)
		},
	}
}

func listKeys(w io.Writer, list []access.Key) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tRATE\tBURST\tCONCURRENCY\tTOKENS/DAY\tTOKENS/MONTH\tCLASSES\tMODELS\tCREATED\tSHA256")
	for _, k := range list {
		limit := func(x float64) string {
			if x == 0 {
				return "-"
			}
			return strconv.FormatFloat(x, 'g', -1, 64)
		}
		created := "-"
		if !k.Created.IsZero() {
			created = k.Created.Format(time.DateTime)
		}
		names := func(list []string) string { return cmp.Or(strings.Join(list, ","), "-") }
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.12x\n", k.Name, limit(k.Rate), limit(float64(k.Burst)), limit(float64(k.Concurrency)),
			whole(k.TokensPerDay), whole(k.TokensPerMonth), names(k.Classes), names(k.Models), created, k.Hash[:6])
	}
	return t.Flush()
}

// whole returns a limit as people read it.
func whole(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func newKeyRemove(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a key: it opens nothing from then on", Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			if err := removeKey(*file, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "removed the key of %s\n", args[0])
			return nil
		},
	}
}

func noKeysFile(err error) error {
	return fmt.Errorf("cannot read keys: %w; gearshift key new NAME --keys FILE makes one, --keys names another", err)
}

// readKeysFile reads the keys of the file. It is an error if there is no file.
func readKeysFile(file string) ([]access.Key, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noKeysFile(err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read keys: %w", err)
	}
	return access.ParseKeys(file, data)
}

// newKey makes a key for the name, adds it to the file, and returns it.
func newKey(file, name string, l access.Limits, g access.Grants) (secret string, err error) {
	defer lockKeys(file)()
	list, err := readKeysFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for _, k := range list {
		if k.Name == name {
			return "", fmt.Errorf("%q has a key in %s already; remove that first, or give the new one another name", name, file)
		}
	}
	k, secret, err := access.NewKey(name, l, time.Now())
	if err != nil {
		return "", err
	}
	if k.Grants = g; g.Check() != nil {
		return "", g.Check()
	}
	if err := appendKey(file, k); err != nil {
		return "", fmt.Errorf("cannot keep the key: %w", err)
	}
	return secret, nil
}

// lockKeys makes other commands wait with their changes until unlock is called: otherwise their
// change or this one would be lost. It locks the folder, since the file is replaced. Systems
// without locks of folders have none.
func lockKeys(file string) (unlock func()) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	folder, err := os.Open(filepath.Dir(file))
	if err != nil { // reading or writing the file says what is wrong
		return func() {}
	}
	lock(folder)
	return func() { _ = folder.Close() }
}

// appendKey adds a line. Other processes see all of it or nothing. The rest of the file stays as it
// is, with its comments.
func appendKey(file string, k access.Key) error {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	return replaceFile(file, append(data, k.Line()...))
}

// removeKey removes the line of the name and nothing else.
func removeKey(file, name string) error {
	defer lockKeys(file)()
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return noKeysFile(err)
	}
	if err != nil {
		return fmt.Errorf("cannot read keys: %w", err)
	}
	if _, err := access.ParseKeys(file, data); err != nil {
		return err
	}
	var kept []byte
	found := false
	for line := range bytes.Lines(data) {
		list, _ := access.ParseKeys(file, line) // all of the file is in order
		if len(list) == 1 && list[0].Name == name {
			found = true
			continue
		}
		kept = append(kept, line...)
	}
	if !found {
		return fmt.Errorf("%s has no key of %q; gearshift key ls --keys %s lists them", file, name, file)
	}
	return replaceFile(file, kept)
}

// replaceFile writes a file with the permissions that it has, or one that only its owner can read.
// A server that reads it at the same time sees the old or the new file.
func replaceFile(file string, data []byte) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("cannot write keys: %s is no regular file", file)
		}
		mode = info.Mode().Perm()
	}
	return output.Whole(file, data, mode)
}
