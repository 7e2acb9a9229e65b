//! The grammar of clauses: SELECT, FROM, WHERE, GROUP BY, ORDER BY, OFFSET LIMIT.

use super::ast::{
    Collection, Count, CountValue, Expr, Item, Kind, OffsetLimit, OrderBy, OrderItem, PathStep,
    Projection, Query, Source, Span,
};
use super::lexer::TokenKind;
use super::parser::{ParseResult, Parser};

/// The number of nesting levels that a query counts as. Its sources, filters and output are
/// evaluated inside each other.
const QUERY_WEIGHT: usize = 5;

impl Parser<'_> {
    /// Parses a query or subquery.
    pub(super) fn query(&mut self) -> ParseResult<Query> {
        self.nested_by(QUERY_WEIGHT, Self::query_clauses)
    }

    fn query_clauses(&mut self) -> ParseResult<Query> {
        // The clauses have a fixed order; all but SELECT are optional.
        let start = self.start();
        self.expect_keyword("SELECT")?;
        let distinct = self.take_keyword("DISTINCT");
        let top_start = self.start();
        let top = if self.take_keyword("TOP") {
            Some(self.count()?)
        } else {
            None
        };
        let top_span = self.span_from(top_start);
        let projection = self.projection()?;
        let select_span = self.span_from(start);
        let from = if self.take_keyword("FROM") {
            self.sources()?
        } else {
            Vec::new()
        };
        let filter = if self.take_keyword("WHERE") {
            Some(self.expression()?)
        } else {
            None
        };
        let group_by_start = self.start();
        let group_by = self.group_by()?;
        let group_by_span = self.span_from(group_by_start);
        let order_by = if self.is_keyword("ORDER") {
            Some(self.order_by()?)
        } else {
            None
        };
        let offset_limit = if self.is_keyword("OFFSET") {
            Some(self.offset_limit()?)
        } else {
            None
        };
        Ok(Query {
            span: self.span_from(start),
            select_span,
            distinct,
            top,
            top_span,
            projection,
            from,
            filter,
            group_by,
            group_by_span,
            order_by,
            offset_limit,
        })
    }

    /// Parses the count of TOP, OFFSET or LIMIT.
    fn count(&mut self) -> ParseResult<Count> {
        let start = self.start();
        let text = self.token_text().to_owned();
        let value = match self.token() {
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

    fn projection(&mut self) -> ParseResult<Projection> {
        let start = self.start();
        if self.take_symbol("*") {
            return Ok(Projection::All(self.span_from(start)));
        }
        if self.take_keyword("VALUE") {
            return Ok(Projection::Value(self.expression()?));
        }
        let mut items = vec![self.item()?];
        while self.take_symbol(",") {
            items.push(self.item()?);
        }
        Ok(Projection::List(items))
    }

    fn item(&mut self) -> ParseResult<Item> {
        let expr = self.expression()?;
        let mut name_span = self.name_span_of(&expr);
        // AS is optional; after it an alias must follow.
        let has_as = self.take_keyword("AS");
        let alias = match self.token() {
            TokenKind::Identifier => Some(self.token_text().to_owned()),
            TokenKind::String(text) => Some(text.clone()),
            _ if has_as => return Err(self.unexpected()),
            _ => None,
        };
        if alias.is_some() {
            self.advance();
            name_span = self.last_span();
        }
        Ok(Item {
            expr,
            alias,
            name_span,
        })
    }

    /// Returns the span of the token that names a path: its last name, without the brackets.
    fn name_span_of(&self, expr: &Expr) -> Span {
        if let Kind::Path { steps, .. } = &expr.kind
            && let Some(PathStep::Bracket(name)) = steps.last()
        {
            return name.span;
        }
        self.last_span()
    }

    fn sources(&mut self) -> ParseResult<Vec<Source>> {
        let mut sources = vec![self.source()?];
        while self.take_keyword("JOIN") {
            sources.push(self.source()?);
        }
        Ok(sources)
    }

    fn source(&mut self) -> ParseResult<Source> {
        let start = self.start();
        // `alias IN collection`
        if *self.token() == TokenKind::Identifier
            && matches!(self.peek(1), TokenKind::Keyword("IN"))
        {
            let alias = Some(self.identifier()?);
            let name_span = self.last_span();
            self.advance();
            let collection_start = self.start();
            let collection = self.collection()?;
            return Ok(Source {
                collection,
                alias,
                name_span,
                iterate: true,
                collection_span: self.span_from(collection_start),
                span: self.span_from(start),
            });
        }
        // `collection [[AS] alias]`
        let collection = self.collection()?;
        let collection_span = self.span_from(start);
        let has_as = self.take_keyword("AS");
        let alias = if has_as || *self.token() == TokenKind::Identifier {
            Some(self.identifier()?)
        } else {
            None
        };
        Ok(Source {
            collection,
            alias,
            name_span: self.last_span(),
            iterate: false,
            collection_span,
            span: self.span_from(start),
        })
    }

    /// Parses a subquery in parentheses or a path such as `c.tags[0]`.
    fn collection(&mut self) -> ParseResult<Collection> {
        if self.take_symbol("(") {
            let query = self.query()?;
            self.expect_symbol(")")?;
            return Ok(Collection::Subquery(Box::new(query)));
        }
        let start = self.start();
        let root = self.identifier()?;
        let root_span = self.span_from(start);
        let mut steps = Vec::new();
        loop {
            if self.take_symbol(".") {
                steps.push(PathStep::Dot(self.identifier()?));
            } else if self.take_symbol("[") {
                let step = self.constant_step()?;
                self.expect_symbol("]")?;
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

    fn group_by(&mut self) -> ParseResult<Vec<Expr>> {
        if !self.take_keyword("GROUP") {
            return Ok(Vec::new());
        }
        self.expect_keyword("BY")?;
        let mut keys = vec![self.expression()?];
        while self.take_symbol(",") {
            keys.push(self.expression()?);
        }
        Ok(keys)
    }

    fn order_by(&mut self) -> ParseResult<OrderBy> {
        let start = self.start();
        self.expect_keyword("ORDER")?;
        self.expect_keyword("BY")?;
        // RANK is not a reserved word: `ORDER BY rank` sorts by a name, `ORDER BY RANK f(...)`
        // ranks.
        let is_before_name = *self.peek(1) == TokenKind::Identifier;
        let rank = self.token_text().eq_ignore_ascii_case("RANK") && is_before_name;
        let mut keys = Vec::with_capacity(1);
        if rank {
            self.advance();
            keys.push(self.ranking()?);
        } else {
            keys.push(self.order_item()?);
            while self.take_symbol(",") {
                keys.push(self.order_item()?);
            }
        }
        Ok(OrderBy {
            keys,
            rank,
            span: self.span_from(start),
        })
    }

    /// Parses the key of ORDER BY RANK: a call, without operators around it.
    fn ranking(&mut self) -> ParseResult<OrderItem> {
        let start = self.start();
        let name = self.identifier()?;
        let expr = self.call(start, name, false)?;
        self.order_of(expr)
    }

    /// Parses a key of ORDER BY.
    fn order_item(&mut self) -> ParseResult<OrderItem> {
        let expr = self.expression()?;
        self.order_of(expr)
    }

    /// Parses the order behind a key of ORDER BY.
    fn order_of(&mut self, expr: Expr) -> ParseResult<OrderItem> {
        let descending = if self.take_keyword("DESC") {
            Some(true)
        } else {
            self.take_keyword("ASC").then_some(false)
        };
        Ok(OrderItem { expr, descending })
    }

    fn offset_limit(&mut self) -> ParseResult<OffsetLimit> {
        let start = self.start();
        self.expect_keyword("OFFSET")?;
        let offset = self.count()?;
        self.expect_keyword("LIMIT")?;
        let limit = self.count()?;
        Ok(OffsetLimit {
            offset,
            limit,
            span: self.span_from(start),
        })
    }
}
