// SPDX-License-Identifier: Apache-2.0

// Command load signs up customers of the bank who look at their accounts, pay each other and deposit money, all at once; in the end it
// looks whether every account holds what it must.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/examples/app"
)

const (
	// opening is the first deposit, in cents: more than a customer can pay in a run.
	opening = 1_000_000
	// tries of a payment of which nobody knows whether it was made, after the load.
	tries = 20
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// customer is used by one goroutine, but for what others pay.
type customer struct {
	user    *app.User
	cookie  http.Header
	account string
	// holds is what the account must hold, in cents.
	holds atomic.Int64
	// open is a transfer that failed, which may have been made or not. It is sent again, the same, until it is known.
	open   *transfer
	visits int
}

// transfer is a payment, or a deposit if nobody is paid.
type transfer struct {
	uuid   string
	amount int64
	to     *customer
}

type bank struct {
	customers []*customer
	// run makes names and transfers unique.
	run int64
	// made are the transfers that are known to be; named counts what has a unique name.
	made, named atomic.Int64
}

func run(args []string) error {
	o, err := app.LoadFlags("load", args)
	if err != nil {
		return err
	}
	if o.Users < 2 {
		return errors.New("--users must be at least 2: they pay each other")
	}
	b := &bank{run: time.Now().UnixNano()}
	if err := b.open(o); err != nil {
		return err
	}
	var failures app.Failures
	report := o.Run(b.visit, &failures)
	if err := o.Write(report, &failures); err != nil {
		return err
	}
	sum, err := b.check()
	if err == nil && !o.JSON {
		_, err = fmt.Printf("%d transfers; the ledger adds up: %d accounts hold %d.%02d\n",
			b.made.Load(), len(b.customers), sum/100, sum%100)
	}
	return err
}

// open signs up the customers and gives each something.
func (b *bank) open(o app.LoadOptions) error {
	b.customers = make([]*customer, o.Users)
	errs := make([]error, o.Users)
	var group sync.WaitGroup
	for i := range b.customers {
		c := &customer{user: o.NewUser(i)}
		b.customers[i] = c
		group.Go(func() { errs[i] = again(func() error { return b.signUp(c) }) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (b *bank) signUp(c *customer) error {
	// A sign-up that failed may have been one: the next is somebody else.
	name := "customer-" + b.uuid()
	form := url.Values{"username": {name}, "password": {"as good as any"}, "name": {name}}
	answer, err := c.user.Do("/signup", form.Encode(), nil)
	if err != nil {
		return err
	}
	if answer.Code != http.StatusSeeOther || len(answer.Cookies) != 1 {
		return fmt.Errorf("sign up: %s: %s", answer.Status, answer.Page)
	}
	c.cookie = http.Header{"Cookie": {"token=" + answer.Cookies[0].Value}}
	c.account = ""
	if c.account, _, err = c.look(); err != nil {
		return err
	}
	return b.send(c, &transfer{uuid: b.uuid(), amount: opening})
}

func (b *bank) uuid() string { return fmt.Sprintf("%d-%d", b.run, b.named.Add(1)) }

// visit is a page: seven of ten look at the account, two pay, one deposits.
func (b *bank) visit(i int) error {
	c := b.customers[i]
	if c.open != nil {
		return b.send(c, c.open)
	}
	c.visits++
	amount := int64(1 + c.visits%100)
	switch c.visits % 10 {
	case 3, 6:
		to := b.customers[(i+1+c.visits%(len(b.customers)-1))%len(b.customers)]
		return b.send(c, &transfer{uuid: b.uuid(), amount: amount, to: to})
	case 9:
		return b.send(c, &transfer{uuid: b.uuid(), amount: amount})
	}
	_, _, err := c.look()
	return err
}

var (
	accountOnPage = regexp.MustCompile(`<b id="account">(\d+)</b>`)
	balanceOnPage = regexp.MustCompile(`<b id="balance">(\d+)\.(\d\d)</b>`)
)

// look reads the page of the account, which must be complete, and returns the account's number and what it holds in cents.
func (c *customer) look() (account string, cents int64, err error) {
	answer, err := c.user.Do("/", "", c.cookie)
	if err != nil {
		return "", 0, err
	}
	page := answer.Page
	number, balance := accountOnPage.FindStringSubmatch(page), balanceOnPage.FindStringSubmatch(page)
	complete := number != nil && balance != nil && strings.HasSuffix(page, "</html>\n") &&
		strings.Contains(page, `id="history"`) && strings.Contains(page, `id="contacts"`)
	if answer.Code != http.StatusOK || !complete {
		return "", 0, fmt.Errorf("account: %s: %s", answer.Status, page)
	}
	if c.account != "" && number[1] != c.account {
		return "", 0, fmt.Errorf("account %s sees the page of %s", c.account, number[1])
	}
	cents, err = strconv.ParseInt(balance[1]+balance[2], 10, 64)
	return number[1], cents, err
}

// send has a transfer made, and books it when it is known to be.
func (b *bank) send(c *customer, t *transfer) error {
	path, form := "/deposit", url.Values{"amount": {strconv.FormatInt(t.amount, 10)}, "uuid": {t.uuid}}
	if t.to != nil {
		path = "/payment"
		form.Set("account", t.to.account)
		form.Set("label", "friend "+t.to.account[:1])
	}
	c.open = t
	answer, err := c.user.Do(path, form.Encode(), c.cookie)
	if err != nil {
		return err
	}
	if answer.Code != http.StatusSeeOther {
		return fmt.Errorf("%s: %s: %s", path, answer.Status, answer.Page)
	}
	c.open = nil
	b.made.Add(1)
	if t.to == nil {
		c.holds.Add(t.amount)
		return nil
	}
	c.holds.Add(-t.amount)
	t.to.holds.Add(t.amount)
	return nil
}

// check settles open transfers, and then compares every account with what it must hold. It returns the sum in cents.
func (b *bank) check() (sum int64, err error) {
	for _, c := range b.customers {
		if err := b.settle(c); err != nil {
			return 0, err
		}
	}
	var errs []error
	for _, c := range b.customers {
		var cents int64
		err := again(func() (err error) { _, cents, err = c.look(); return err })
		if err == nil && cents != c.holds.Load() {
			err = fmt.Errorf("account %s holds %d, want %d: the ledger does not add up", c.account, cents, c.holds.Load())
		}
		errs = append(errs, err)
		sum += cents
		c.user.Close()
	}
	return sum, errors.Join(errs...)
}

func (b *bank) settle(c *customer) error {
	if c.open == nil {
		return nil
	}
	return again(func() error { return b.send(c, c.open) })
}

// again repeats f a few times, as long as it fails.
func again(f func() error) (err error) {
	for range tries {
		if err = f(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
