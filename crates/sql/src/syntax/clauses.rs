//! The clauses of a query: SELECT, FROM, WHERE, GROUP BY, ORDER BY, OFFSET LIMIT.

use super::ast::{
    Collection, Count, CountValue, Item, OffsetLimit, OrderBy, OrderItem, PathStep, Projection,
    Query, Source,
};
use super::lexer::TokenKind;
use super::parser::{Parsed, Parser};

/// How much of the nesting a query takes: its sources, filters and output all nest when it runs.
const QUERY_WEIGHT: usize = 5;

impl Parser<'_> {
    pub fn query(&mut self) -> Parsed<Query> {
        self.nested_by(QUERY_WEIGHT, Self::query_clauses)
    }

    fn query_clauses(&mut self) -> Parsed<Query> {
        self.expect_word("SELECT")?;
        let distinct = self.take_word("DISTINCT");
        let top_start = self.start();
        let top = if self.take_word("TOP") {
            Some(self.count()?)
        } else {
            None
        };
        let top_span = self.span_from(top_start);
        let projection = self.projection()?;
        let from = if self.take_word("FROM") {
            self.sources()?
        } else {
            Vec::new()
        };
        let filter = if self.take_word("WHERE") {
            Some(self.expression()?)
        } else {
            None
        };
        let group_by = self.group_by()?;
        let order_by = if self.is_word("ORDER") {
            Some(self.order_by()?)
        } else {
            None
        };
        let offset_limit = if self.is_word("OFFSET") {
            Some(self.offset_limit()?)
        } else {
            None
        };
        Ok(Query {
            distinct,
            top,
            top_span,
            projection,
            from,
            filter,
            group_by,
            order_by,
            offset_limit,
        })
    }

    fn count(&mut self) -> Parsed<Count> {
        let start = self.start();
        let text = self.word().to_owned();
        let value = match self.kind() {
            TokenKind::Number(_) => CountValue::Number(text),
            TokenKind::Parameter => CountValue::Parameter(text),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(Count {
            value,
            span: self.span_from(start),
        })
    }

    fn projection(&mut self) -> Parsed<Projection> {
        let start = self.start();
        if self.take_sign("*") {
            return Ok(Projection::All(self.span_from(start)));
        }
        if self.take_word("VALUE") {
            return Ok(Projection::Value(self.expression()?));
        }
        let mut items = vec![self.item()?];
        while self.take_sign(",") {
            items.push(self.item()?);
        }
        Ok(Projection::List(items))
    }

    fn item(&mut self) -> Parsed<Item> {
        let expr = self.expression()?;
        let named = self.take_word("AS");
        let alias = match self.kind() {
            TokenKind::Identifier => Some(self.word().to_owned()),
            TokenKind::String(text) => Some(text.clone()),
            _ if named => return Err(self.unexpected()),
            _ => None,
        };
        if alias.is_some() {
            self.advance();
        }
        Ok(Item { expr, alias })
    }

    fn sources(&mut self) -> Parsed<Vec<Source>> {
        let mut sources = vec![self.source()?];
        while self.take_word("JOIN") {
            sources.push(self.source()?);
        }
        Ok(sources)
    }

    fn source(&mut self) -> Parsed<Source> {
        let start = self.start();
        if *self.kind() == TokenKind::Identifier && matches!(self.ahead(1), TokenKind::Word("IN")) {
            let alias = Some(self.identifier()?);
            self.advance();
            let collection = self.collection()?;
            return Ok(Source {
                collection,
                alias,
                iterate: true,
                span: self.span_from(start),
            });
        }
        let collection = self.collection()?;
        let named = self.take_word("AS");
        let alias = if named || *self.kind() == TokenKind::Identifier {
            Some(self.identifier()?)
        } else {
            None
        };
        Ok(Source {
            collection,
            alias,
            iterate: false,
            span: self.span_from(start),
        })
    }

    fn collection(&mut self) -> Parsed<Collection> {
        if self.take_sign("(") {
            let query = self.query()?;
            self.expect_sign(")")?;
            return Ok(Collection::Subquery(Box::new(query)));
        }
        let start = self.start();
        let root = self.identifier()?;
        let root_span = self.span_from(start);
        let mut steps = Vec::new();
        loop {
            if self.take_sign(".") {
                steps.push(PathStep::Dot(self.identifier()?));
            } else if self.take_sign("[") {
                let step = self.constant_step()?;
                self.expect_sign("]")?;
                steps.push(PathStep::Bracket(step));
            } else {
                return Ok(Collection::Path {
                    root,
                    root_span,
                    steps,
                });
            }
        }
    }

    fn group_by(&mut self) -> Parsed<Vec<super::ast::Expr>> {
        if !self.take_word("GROUP") {
            return Ok(Vec::new());
        }
        self.expect_word("BY")?;
        let mut keys = vec![self.expression()?];
        while self.take_sign(",") {
            keys.push(self.expression()?);
        }
        Ok(keys)
    }

    fn order_by(&mut self) -> Parsed<OrderBy> {
        let start = self.start();
        self.expect_word("ORDER")?;
        self.expect_word("BY")?;
        let next_is_call =
            *self.ahead(1) == TokenKind::Identifier && *self.ahead(2) == TokenKind::Sign("(");
        let rank = self.word().eq_ignore_ascii_case("RANK") && next_is_call;
        if rank {
            self.advance();
        }
        let mut keys = vec![self.order_item()?];
        while self.take_sign(",") {
            keys.push(self.order_item()?);
        }
        Ok(OrderBy {
            keys,
            rank,
            span: self.span_from(start),
        })
    }

    fn order_item(&mut self) -> Parsed<OrderItem> {
        let expr = self.expression()?;
        let descending = if self.take_word("DESC") {
            Some(true)
        } else {
            self.take_word("ASC").then_some(false)
        };
        Ok(OrderItem { expr, descending })
    }

    fn offset_limit(&mut self) -> Parsed<OffsetLimit> {
        let start = self.start();
        self.expect_word("OFFSET")?;
        let offset = self.count()?;
        self.expect_word("LIMIT")?;
        let limit = self.count()?;
        Ok(OffsetLimit {
            offset,
            limit,
            span: self.span_from(start),
        })
    }
}
