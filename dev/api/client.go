// A generated client at work: places, reads, pays and cancels orders, and reads what is refused.
package main

import (
	"context"
	"fmt"
	"os"

	doorbuster "doorbuster.dev/client"
)

const sale, product = 3, 29

func main() {
	configuration := doorbuster.NewConfiguration()
	configuration.Servers = doorbuster.ServerConfigurations{{URL: os.Args[1]}}
	configuration.AddDefaultHeader("memberId", "4001")
	api := doorbuster.NewAPIClient(configuration)
	ctx := context.Background()

	list, _, err := api.SalesAPI.ListSales(ctx).Limit(50).Execute()
	must(err)
	assert(len(list.Sales) > 0, "there are sales")
	place := func() *doorbuster.Order {
		order, response, err := api.OrdersAPI.PlaceOrder(ctx).OrderRequest(*doorbuster.NewOrderRequest(sale, product)).Execute()
		must(err)
		assert(response.StatusCode == 201 && order.Status == "held" && order.ClosedAtMs.Get() == nil, "it is held")
		return order
	}
	read, _, err := api.OrdersAPI.GetOrder(ctx, place().Id).Execute()
	must(err)
	assert(read.Product == product && *read.PayByMs.Get() > read.PlacedAtMs, "it is to be paid")
	paid, _, err := api.OrdersAPI.PayDemoOrder(ctx, read.Id).Execute()
	must(err)
	assert(paid.Status == "paid" && paid.ClosedAtMs.Get() != nil, "it is paid")
	cancelled, _, err := api.OrdersAPI.CancelOrder(ctx, place().Id).Execute()
	must(err)
	assert(cancelled.Status == "cancelled", "it is cancelled")
	_, response, err := api.OrdersAPI.CancelOrder(ctx, paid.Id).Execute()
	assert(err != nil && response.StatusCode == 409, "what is paid is not cancelled")
	refused, ok := err.(*doorbuster.GenericOpenAPIError)
	assert(ok, "the error is one of the API's")
	problem, ok := refused.Model().(doorbuster.Problem)
	assert(ok && problem.Code == "not_cancellable", "the problem has its code")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func assert(holds bool, what string) {
	if !holds {
		panic(fmt.Sprint("not so: ", what))
	}
}
